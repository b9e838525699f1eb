"""Layers: the tree, states, modes, hooks; a small net trains as real Paddle 2.6.2 trained it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import oarlock as paddle
import pytest
from oarlock.eager import unique_name

nn = paddle.nn


def fill(layer: Any) -> None:
    """The same numbers for every framework, by order of the names."""
    for k, (name, p) in enumerate(sorted(layer.named_parameters())):
        value = (np.sin(np.arange(int(np.prod(p.shape))) * 0.7 + k) * 0.3).reshape(p.shape).astype("float32")
        p.set_value(np.abs(value) + 0.5 if name.endswith("_variance") else value)


class Net(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 4, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(4),
            nn.ReLU(),
            nn.MaxPool2D(2),
            nn.Conv2D(4, 4, 3, groups=4),
            nn.Hardswish(),
            nn.AdaptiveAvgPool2D(2),
        )
        self.drop = nn.Dropout(0.0)
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 3)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.drop(self.features(x).flatten(1))))


def test_five_training_steps_are_paddles() -> None:
    net = Net()
    fill(net)
    x = paddle.to_tensor(np.sin(np.arange(256) * 0.37).reshape(4, 1, 8, 8).astype("float32"))
    label = paddle.to_tensor(np.array([0, 2, 1, 0]))
    optimizer = paddle.optimizer.Adam(
        0.01, parameters=net.parameters(), weight_decay=1e-3, grad_clip=nn.ClipGradByGlobalNorm(1.0)
    )
    losses = []
    for _ in range(5):
        loss = nn.CrossEntropyLoss()(net(x), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        losses.append(float(loss))
    np.testing.assert_allclose(losses, [1.102414, 1.071752, 1.04609, 1.025278, 1.007335], rtol=1e-5)
    net.eval()
    wanted = [
        0.64464,
        0.05739,
        -0.15423,
        0.65961,
        0.14972,
        -0.05042,
        0.73809,
        0.17824,
        -0.08363,
        0.77579,
        0.02529,
        -0.30785,
    ]
    np.testing.assert_allclose(net(x).numpy().ravel(), wanted, atol=1e-4)
    np.testing.assert_allclose(net.features[1]._mean.numpy(), [0.14601, 0.17266, 0.11667, 0.0046], atol=1e-4)


def test_names_are_paddles() -> None:
    with unique_name.guard():
        net = Net()
        assert [each.name for each in net.parameters()] == [
            "conv2d_0.w_0",
            "batch_norm2d_0.w_0",
            "batch_norm2d_0.b_0",
            "batch_norm2d_0.w_1",
            "batch_norm2d_0.w_2",
            "conv2d_1.w_0",
            "conv2d_1.b_0",
            "layer_norm_0.w_0",
            "layer_norm_0.b_0",
            "linear_0.w_0",
            "linear_0.b_0",
        ]
        assert nn.ReLU().full_name() == "re_lu_1"
    assert list(net.state_dict())[1:5] == [
        "features.1.weight",
        "features.1.bias",
        "features.1._mean",
        "features.1._variance",
    ]


@pytest.mark.parametrize(
    ("layer", "text"),
    [
        (nn.Linear(2, 3), "Linear(in_features=2, out_features=3, dtype=float32)"),
        (nn.Conv2D(3, 4, 3), "Conv2D(3, 4, kernel_size=[3, 3], data_format=NCHW)"),
        (
            nn.Conv2D(3, 4, 3, stride=2, padding=1),
            "Conv2D(3, 4, kernel_size=[3, 3], stride=2, padding=1, data_format=NCHW)",
        ),
        (nn.BatchNorm2D(3), "BatchNorm2D(num_features=3, momentum=0.9, epsilon=1e-05)"),
        (nn.LayerNorm(4), "LayerNorm(normalized_shape=[4], epsilon=1e-05)"),
        (nn.Embedding(5, 3), "Embedding(5, 3, sparse=False)"),
        (nn.Dropout(0.3), "Dropout(p=0.3, axis=None, mode=upscale_in_train)"),
        (nn.LeakyReLU(), "LeakyReLU(negative_slope=0.01)"),
        (nn.MaxPool2D(2), "MaxPool2D(kernel_size=2, stride=None, padding=0)"),
        (nn.CrossEntropyLoss(), "CrossEntropyLoss()"),
        (nn.Sequential(nn.ReLU()), "Sequential(\n  (0): ReLU()\n)"),
    ],
)
def test_layers_print_as_paddles(layer: Any, text: str) -> None:
    assert repr(layer) == text


def test_attributes_go_where_they_belong() -> None:
    layer = nn.Layer()
    layer.weight = paddle.Parameter(np.ones(2, "float32"))
    layer.child = nn.Linear(1, 1)
    layer.register_buffer("steps", paddle.zeros([1]))
    layer.register_buffer("scratch", paddle.zeros([1]), persistable=False)
    layer.plain = 3
    assert [name for name, _ in layer.named_parameters()] == ["weight", "child.weight", "child.bias"]
    assert [name for name, _ in layer.named_buffers()] == ["steps", "scratch"]
    assert list(layer.state_dict()) == ["weight", "steps", "child.weight", "child.bias"]
    layer.weight = None
    assert layer.weight is None
    assert len(layer.parameters()) == 2
    layer.steps = paddle.ones([1])
    assert dict(layer.named_buffers())["steps"].tolist() == [1.0]
    del layer.child
    with pytest.raises(AttributeError, match="'Layer' object has no attribute 'child'"):
        _ = layer.child
    with pytest.raises(RuntimeError, match=r"call super\(\).__init__\(\) before assigning"):
        type("Bad", (nn.Layer,), {"__init__": lambda self: setattr(self, "a", 1)})()


def test_a_shared_parameter_is_listed_once() -> None:
    first = nn.Linear(2, 2)
    second = nn.Linear(2, 2)
    second.weight = first.weight
    assert len(nn.Sequential(first, second).parameters()) == 3


def test_states_are_set_by_name_and_what_does_not_fit_is_reported() -> None:
    layer = nn.Linear(2, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = layer.set_state_dict({"weight": np.ones((2, 2)), "other": np.ones(1)})
    assert found == (["bias"], ["other"])
    assert layer.weight.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.warns(UserWarning, match=r"weight receives a shape \[3, 2\], but the expected shape is \[2, 2\]"):
        found = layer.set_state_dict({"weight": np.ones((3, 2)), "bias": np.ones(2)})
    assert found == (["weight"], ["weight"])
    assert layer.weight.inplace_version == 1


def test_modes_reach_every_layer() -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.BatchNorm1D(2)))
    assert net.eval() is None
    assert not any(each.training for each in net.sublayers(include_self=True))
    x = paddle.ones([4, 2])
    np.testing.assert_array_equal(net[0](x).numpy(), x.numpy())
    net.train()
    paddle.seed(3)
    assert set(net[0](paddle.ones([200])).numpy().tolist()) == {0.0, 2.0}


def test_batch_norm_moves_its_statistics_in_training_only() -> None:
    layer = nn.BatchNorm1D(2, momentum=0.5)
    x = paddle.to_tensor([[0.0, 2.0], [4.0, 6.0]])
    layer(x)
    np.testing.assert_allclose(layer._mean.numpy(), [1.0, 2.0])
    np.testing.assert_allclose(layer._variance.numpy(), [2.5, 2.5])
    layer.eval()
    out = layer(x)
    np.testing.assert_allclose(out.numpy(), (x.numpy() - [1.0, 2.0]) / np.sqrt(2.5 + 1e-5), rtol=1e-6)
    np.testing.assert_allclose(layer._mean.numpy(), [1.0, 2.0])
    assert layer._mean.stop_gradient


def test_two_forwards_before_one_backward() -> None:
    layer = nn.BatchNorm1D(2)
    x = paddle.to_tensor([[0.0, 2.0], [4.0, 7.0]], stop_gradient=False)
    (layer(x) * 2 + layer(x * 2)).sum().backward()
    assert layer.weight.grad is not None


def test_hooks_replace_inputs_and_outputs() -> None:
    layer = nn.Linear(1, 1, bias_attr=False)
    layer.weight.set_value(np.ones((1, 1), "float32"))
    before = layer.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 2,))
    after = layer.register_forward_post_hook(lambda _, inputs, out: out + inputs[0])
    assert float(layer(paddle.ones([1, 1]))) == 4.0
    before.remove()
    after.remove()
    assert float(layer(paddle.ones([1, 1]))) == 1.0


def test_containers() -> None:
    items = nn.LayerList([nn.Linear(1, 1), nn.ReLU()])
    items.append(nn.Tanh())
    items.insert(0, nn.Sigmoid())
    assert [type(each).__name__ for each in items] == ["Sigmoid", "Linear", "ReLU", "Tanh"]
    assert list(items.state_dict()) == ["1.weight", "1.bias"]
    del items[0]
    assert len(items[:2]) == 2
    named = nn.Sequential(("a", nn.Linear(1, 1)), ("b", nn.ReLU()))
    assert list(named.state_dict()) == ["a.weight", "a.bias"]
    assert nn.LayerDict({"x": nn.ReLU()})["x"].full_name().startswith("re_lu")
    weights = nn.ParameterList([paddle.create_parameter([2], "float32")])
    assert [name for name, _ in weights.named_parameters()] == ["0"]


def test_parameter_attributes() -> None:
    attr = paddle.ParamAttr(
        name="my_weight",
        initializer=nn.initializer.Constant(3.0),
        learning_rate=0.5,
        trainable=False,
        need_clip=False,
        regularizer=paddle.regularizer.L1Decay(0.1),
    )
    weight = nn.Linear(2, 2, weight_attr=attr, bias_attr=False).weight
    assert (weight.name, weight.tolist()[0], weight.stop_gradient, weight.need_clip) == (
        "my_weight",
        [3.0, 3.0],
        True,
        False,
    )
    assert weight.optimize_attr["learning_rate"] == 0.5
    assert nn.Linear(2, 2, bias_attr=False).bias is None


@pytest.mark.parametrize(
    ("initializer", "deviation"),
    [
        (nn.initializer.XavierUniform(), np.sqrt(2 / 500)),
        (nn.initializer.XavierNormal(), np.sqrt(2 / 500)),
        (nn.initializer.KaimingUniform(), np.sqrt(2 / 200)),
        (nn.initializer.KaimingNormal(), np.sqrt(2 / 200)),
        (nn.initializer.Normal(0.0, 0.5), 0.5),
        (nn.initializer.Uniform(-1.0, 1.0), 1 / np.sqrt(3)),
        (nn.initializer.TruncatedNormal(0.0, 1.0), 0.8796),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, float) else "",
)
def test_initializers_have_their_spread(initializer: Any, deviation: float) -> None:
    paddle.seed(1)
    drawn = initializer.array((200, 300), np.dtype("float32"))
    assert drawn.dtype == np.float32
    assert abs(drawn.mean()) < 0.02 * max(deviation, 0.1) + 0.01
    assert drawn.std() == pytest.approx(deviation, rel=0.02)


def test_orthogonal_columns() -> None:
    drawn = nn.initializer.Orthogonal().array((6, 4), np.dtype("float64"))
    np.testing.assert_allclose(drawn.T @ drawn, np.eye(4), atol=1e-12)


def test_the_same_seed_draws_the_same_numbers() -> None:
    paddle.seed(7)
    first = paddle.randn([3]).tolist()
    paddle.seed(7)
    assert paddle.randn([3]).tolist() == first


# Optimizers beyond the recorded steps


def test_half_precision_is_updated_through_a_float32_copy() -> None:
    p = paddle.Parameter(np.ones(2, "float16"), name="half")
    optimizer = paddle.optimizer.SGD(1e-4, parameters=[p], multi_precision=True)
    for _ in range(10):
        (p * 1.0).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
    np.testing.assert_allclose(optimizer.state_dict()["master_weights"]["half"].numpy(), [0.999, 0.999], rtol=1e-6)
    assert p.numpy().tolist() == [np.float16(0.999)] * 2


def test_states_go_on_in_another_optimizer() -> None:
    def stepped(optimizer: Any, p: Any) -> list[float]:
        (p * p).sum().backward()
        optimizer.step()
        optimizer.clear_grad()
        return p.tolist()  # type: ignore[no-any-return]

    p = paddle.Parameter(np.array([1.0, -2.0], "float32"), name="w")
    first = paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(0.1, 1), parameters=[p])
    stepped(first, p)
    first._learning_rate.step()
    saved = {k: v.numpy() if hasattr(v, "numpy") else v for k, v in first.state_dict().items()}
    copied = paddle.Parameter(p.numpy(), name="w")
    second = paddle.optimizer.Adam(paddle.optimizer.lr.StepDecay(0.1, 1), parameters=[copied])
    second.set_state_dict(saved)
    assert second.get_lr() == pytest.approx(0.01)
    assert stepped(first, p) == stepped(second, copied)


def test_a_scheduled_rate_cannot_be_set() -> None:
    p = paddle.Parameter(np.ones(1, "float32"))
    optimizer = paddle.optimizer.SGD(paddle.optimizer.lr.StepDecay(0.1, 2), parameters=[p])
    with pytest.raises(RuntimeError, match="can't be LRScheduler when invoke this API"):
        optimizer.set_lr(0.1)
    with pytest.raises(AttributeError, match="should not be None in dygraph mode"):
        paddle.optimizer.SGD(0.1)
    optimizer.step()  # no gradients: nothing to do


def test_unfreezing_brings_the_gradient_back() -> None:
    layer = nn.Linear(2, 1)
    layer.weight.trainable = False
    optimizer = paddle.optimizer.SGD(0.1, parameters=layer.parameters())
    before = layer.weight.numpy()
    layer(paddle.ones([1, 2])).backward()
    optimizer.step()
    assert layer.weight.grad is None
    np.testing.assert_array_equal(layer.weight.numpy(), before)
    layer.weight.stop_gradient = False
    layer(paddle.ones([1, 2])).backward()
    assert layer.weight.grad is not None
    assert layer.weight.trainable


@pytest.mark.parametrize(
    ("kind", "arguments", "loss", "gradient"),
    [
        ("LSTM", (3, 4, 2, "bidirect"), 1.1254, 0.96),
        ("GRU", (3, 4), 2.6459, 2.939),
        ("SimpleRNN", (3, 4), 5.9749, 5.967),
    ],
)
def test_recurrent_layers_are_paddles(kind: str, arguments: Any, loss: float, gradient: float) -> None:
    layer = getattr(nn, kind)(*arguments)
    for i, p in enumerate(layer.parameters()):
        p.set_value((np.sin(np.arange(int(np.prod(p.shape))) * 0.7 + i) * 0.3).reshape(p.shape).astype("float32"))
    x = paddle.to_tensor(np.cos(np.arange(30)).reshape(2, 5, 3).astype("float32"), stop_gradient=False)
    out, states = layer(x)
    total = (out * out).sum()
    for each in states if isinstance(states, tuple) else (states,):
        total = total + (each * each * each).sum()
    total.backward()
    assert float(total) == pytest.approx(loss, abs=1e-4)
    assert float(x.grad.abs().sum()) == pytest.approx(gradient, abs=1e-3)
    assert len(layer.state_dict()) == 2 * len(layer.parameters())

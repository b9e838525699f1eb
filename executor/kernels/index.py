"""Which family file declares which operator types. Written by tools/index_kernels.py; not by hand."""

from __future__ import annotations

__all__ = ["FAMILY_OF"]

# fmt: off
_TYPES = {
    "activation": "celu celu_grad celu_grad_grad elu elu_grad elu_grad_grad gelu gelu_grad gelu_grad_grad logsigmoid logsigmoid_grad mish mish_grad selu selu_grad sigmoid sigmoid_grad sigmoid_grad_grad silu silu_grad silu_grad_grad soft_relu soft_relu_grad softplus softplus_double_grad softplus_grad softsign softsign_grad stanh stanh_grad swish swish_grad swish_grad_grad tanh tanh_grad tanh_grad_grad tanh_shrink tanh_shrink_grad",  # noqa: E501
    "activation_linear": "brelu brelu_grad hard_shrink hard_shrink_grad hard_sigmoid hard_sigmoid_grad hard_swish hard_swish_grad leaky_relu leaky_relu_grad leaky_relu_grad_grad relu relu6 relu6_grad relu_grad relu_grad_grad softshrink softshrink_grad thresholded_relu thresholded_relu_grad",  # noqa: E501
    "activation_params": "add_position_encoding add_position_encoding_grad fused_softplus maxout maxout_grad prelu prelu_grad rrelu rrelu_grad",  # noqa: E501
    "beam_search": "beam_search beam_search_decode",  # noqa: E501
    "cast": "assign cast memcpy memcpy_d2h memcpy_h2d nop npu_identity print share_buffer share_data transfer_dtype transfer_layout",  # noqa: E501
    "compare": "allclose bitwise_and bitwise_not bitwise_or bitwise_xor equal equal_all greater_equal greater_than is_empty isclose isfinite isfinite_v2 isinf isinf_v2 isnan isnan_v2 less_equal less_than logical_and logical_not logical_or logical_xor not_equal",  # noqa: E501
    "complex_fft": "angle angle_grad as_complex as_real complex complex_grad conj fft_c2c fft_c2c_grad fft_c2r fft_c2r_grad fft_r2c fft_r2c_grad frame frame_grad imag imag_grad overlap_add overlap_add_grad real real_grad stft stft_grad",  # noqa: E501
    "concat_split": "coalesce_tensor concat concat_grad partial_concat partial_concat_grad partial_sum partial_sum_grad split stack stack_grad unbind unstack unstack_grad",  # noqa: E501
    "control_flow": "assert conditional_block conditional_block_grad conditional_block_infer select_input select_output while while_grad",  # noqa: E501
    "conv": "conv2d conv2d_fusion conv2d_grad conv3d conv3d_grad depthwise_conv2d depthwise_conv2d_grad fused_conv2d fused_conv2d_add_act fused_conv3d",  # noqa: E501
    "conv_transpose": "conv2d_transpose conv2d_transpose_bias conv2d_transpose_bias_grad conv2d_transpose_grad conv3d_transpose conv3d_transpose_grad depthwise_conv2d_transpose depthwise_conv2d_transpose_grad",  # noqa: E501
    "correlation": "bilateral_slice bilateral_slice_grad conv_shift conv_shift_grad correlation correlation_grad",  # noqa: E501
    "creation": "assign_value empty eye fill fill_any fill_any_grad fill_any_like fill_constant fill_constant_batch_size_like fill_zeros_like fill_zeros_like2 full_int_array linspace logspace range",  # noqa: E501
    "crf": "crf_decoding linear_chain_crf linear_chain_crf_grad viterbi_decode",  # noqa: E501
    "ctc": "ctc_align warpctc warpctc_grad",  # noqa: E501
    "ctc_distance": "edit_distance",  # noqa: E501
    "ctc_transducer": "warprnnt warprnnt_grad",  # noqa: E501
    "cumulative": "cummax cummax_grad cummin cummin_grad cumprod cumprod_grad cumsum cumsum_grad logcumsumexp logcumsumexp_grad",  # noqa: E501
    "deformable": "deformable_conv deformable_conv_grad deformable_conv_v1 deformable_conv_v1_grad deformable_psroi_pooling deformable_psroi_pooling_grad",  # noqa: E501
    "detection_boxes": "anchor_generator box_clip box_coder box_decoder_and_assign density_prior_box iou_similarity polygon_box_transform prior_box",  # noqa: E501
    "detection_map": "detection_map",  # noqa: E501
    "detection_nms": "locality_aware_nms matrix_nms multiclass_nms multiclass_nms2 multiclass_nms3 nms retinanet_detection_output",  # noqa: E501
    "detection_proposals": "collect_fpn_proposals distribute_fpn_proposals generate_proposals generate_proposals_v2",  # noqa: E501
    "detection_samples": "generate_mask_labels generate_proposal_labels",  # noqa: E501
    "detection_targets": "bipartite_match mine_hard_examples retinanet_target_assign rpn_target_assign target_assign",  # noqa: E501
    "detection_yolo": "yolo_box yolov3_loss yolov3_loss_grad",  # noqa: E501
    "diagonal": "diag diag_embed diag_v2 diag_v2_grad diagonal diagonal_grad fill_diagonal fill_diagonal_grad fill_diagonal_tensor fill_diagonal_tensor_grad tril_indices tril_triu tril_triu_grad triu_indices",  # noqa: E501
    "dropout": "dropout dropout_grad dropout_nd dropout_nd_grad fused_dropout_add fused_dropout_add_grad",  # noqa: E501
    "einsum": "einsum einsum_grad",  # noqa: E501
    "elementwise": "elementwise_add elementwise_add_grad elementwise_add_grad_grad elementwise_div elementwise_div_grad elementwise_div_grad_grad elementwise_floordiv elementwise_fmax elementwise_fmax_grad elementwise_fmin elementwise_fmin_grad elementwise_heaviside elementwise_heaviside_grad elementwise_max elementwise_max_grad elementwise_min elementwise_min_grad elementwise_mod elementwise_mul elementwise_mul_grad elementwise_mul_grad_grad elementwise_pow elementwise_pow_grad elementwise_sub elementwise_sub_grad elementwise_sub_grad_grad grad_add",  # noqa: E501
    "elementwise_more": "atan2 atan2_grad fused_elementwise_add fused_elementwise_div fused_elementwise_mul fused_elementwise_sub fused_elemwise_activation fused_elemwise_activation_grad fused_elemwise_add_activation fused_elemwise_add_activation_grad lerp lerp_grad minus nextafter",  # noqa: E501
    "embedding": "c_embedding c_embedding_grad fused_embedding_eltwise_layernorm lookup_table lookup_table_dequant lookup_table_grad lookup_table_v2 lookup_table_v2_grad one_hot one_hot_v2 sequence_mask shard_index",  # noqa: E501
    "expand": "broadcast_tensors broadcast_tensors_grad expand expand_as expand_as_grad expand_as_v2 expand_as_v2_grad expand_grad expand_v2 expand_v2_grad meshgrid meshgrid_grad repeat_interleave repeat_interleave_grad tile tile_grad",  # noqa: E501
    "fused_chain": "fused_chain",  # noqa: E501
    "fused_transformer": "flash_attn flash_attn_grad flash_attn_unpadded flash_attn_unpadded_grad memory_efficient_attention memory_efficient_attention_grad multihead_matmul self_dp_attention",  # noqa: E501
    "fused_transformer_blocks": "fused_attention fused_feedforward",  # noqa: E501
    "fused_transformer_ops": "fused_bias_act fused_gemm_epilogue fused_gemm_epilogue_grad fused_linear_param_grad_add fused_rotary_position_embedding fused_rotary_position_embedding_grad fused_token_prune",  # noqa: E501
    "fusion_rnn": "attention_lstm fused_embedding_fc_lstm fusion_gru fusion_lstm multi_gru",  # noqa: E501
    "fusion_sequence": "cvm cvm_grad fused_embedding_seq_pool fused_embedding_seq_pool_grad fused_seqpool_cvm fused_seqpool_cvm_grad fusion_seqconv_eltadd_relu fusion_seqexpand_concat_fc fusion_seqpool_concat fusion_seqpool_cvm_concat fusion_transpose_flatten_concat",  # noqa: E501
    "gather_scatter": "gather gather_grad gather_nd gather_nd_grad gather_tree index_sample index_sample_grad index_select index_select_grad masked_select masked_select_grad take_along_axis take_along_axis_grad where where_grad where_index",  # noqa: E501
    "graph": "graph_khop_sampler graph_reindex graph_sample_neighbors graph_send_recv graph_send_recv_grad graph_send_ue_recv graph_send_ue_recv_grad graph_send_uv graph_send_uv_grad segment_pool segment_pool_grad weighted_sample_neighbors",  # noqa: E501
    "grid_sample": "affine_grid affine_grid_grad grid_sampler grid_sampler_grad",  # noqa: E501
    "interpolate": "bicubic_interp bicubic_interp_grad bicubic_interp_v2 bicubic_interp_v2_grad bilinear_interp bilinear_interp_grad bilinear_interp_v2 bilinear_interp_v2_grad linear_interp linear_interp_grad linear_interp_v2 linear_interp_v2_grad nearest_interp nearest_interp_grad nearest_interp_v2 nearest_interp_v2_grad trilinear_interp trilinear_interp_grad trilinear_interp_v2 trilinear_interp_v2_grad",  # noqa: E501
    "linalg": "cholesky cholesky_grad cholesky_solve cholesky_solve_grad determinant determinant_grad inverse inverse_grad matrix_power matrix_power_grad multi_dot multi_dot_grad slogdeterminant slogdeterminant_grad solve solve_grad triangular_solve triangular_solve_grad",  # noqa: E501
    "linalg_decomp": "eig eig_grad eigh eigh_grad eigvals eigvalsh eigvalsh_grad lu lu_grad lu_unpack lu_unpack_grad qr qr_grad svd svd_grad",  # noqa: E501
    "linalg_misc": "lstsq matrix_rank renorm renorm_grad",  # noqa: E501
    "loss": "bce_loss bce_loss_grad hinge_loss hinge_loss_grad huber_loss huber_loss_grad kldiv_loss kldiv_loss_grad log_loss log_loss_grad modified_huber_loss modified_huber_loss_grad sigmoid_cross_entropy_with_logits sigmoid_cross_entropy_with_logits_grad sigmoid_focal_loss sigmoid_focal_loss_grad smooth_l1_loss smooth_l1_loss_grad teacher_student_sigmoid_loss teacher_student_sigmoid_loss_grad",  # noqa: E501
    "loss_pair": "bpr_loss bpr_loss_grad center_loss center_loss_grad cos_sim cos_sim_grad margin_rank_loss margin_rank_loss_grad rank_loss rank_loss_grad squared_l2_distance squared_l2_distance_grad",  # noqa: E501
    "loss_sampled": "hierarchical_sigmoid hierarchical_sigmoid_grad nce nce_grad sample_logits sample_logits_grad",  # noqa: E501
    "loss_softmax": "cross_entropy cross_entropy2 cross_entropy_grad cross_entropy_grad2 margin_cross_entropy margin_cross_entropy_grad nll_loss nll_loss_grad softmax_with_cross_entropy softmax_with_cross_entropy_grad",  # noqa: E501
    "matmul": "addmm addmm_grad bmm bmm_grad matmul matmul_grad matmul_grad_grad matmul_v2 matmul_v2_grad matmul_v2_grad_grad mul mul_grad mul_grad_grad mv mv_grad",  # noqa: E501
    "matmul_fused": "bilinear_tensor_product bilinear_tensor_product_grad fc fused_fc_elementwise_layernorm fused_matmul fusion_repeated_fc_relu fusion_squared_mat_sub",  # noqa: E501
    "metrics": "accuracy auc check_numerics get_tensor_from_selected_rows merge_selected_rows positive_negative_pair precision_recall top_p_sampling",  # noqa: E501
    "moe": "assign_pos limit_by_capacity number_count prune_gate_by_capacity random_routing",  # noqa: E501
    "norm": "batch_norm batch_norm_grad fused_batch_norm_act fused_batch_norm_act_grad fused_bn_add_activation fused_bn_add_activation_grad inplace_abn inplace_abn_grad sync_batch_norm sync_batch_norm_grad",  # noqa: E501
    "norm_layer": "group_norm group_norm_grad instance_norm instance_norm_grad layer_norm layer_norm_grad",  # noqa: E501
    "norm_misc": "data_norm data_norm_grad fused_bias_dropout_residual_layer_norm fused_bias_dropout_residual_layer_norm_grad fused_bias_residual_layernorm fused_layernorm rms_norm skip_layernorm spectral_norm spectral_norm_grad",  # noqa: E501
    "optimizers": "average_accumulates check_finite_and_unscale dpsgd ftrl lars_momentum merged_momentum momentum pow2_decay_with_linear_warmup proximal_adagrad proximal_gd sgd sparse_momentum update_loss_scaling",  # noqa: E501
    "optimizers_adam": "adam adamw fused_adam merged_adam",  # noqa: E501
    "optimizers_adaptive": "adadelta adagrad adamax decayed_adagrad lamb rmsprop",  # noqa: E501
    "pad": "crop crop_grad crop_tensor crop_tensor_grad pad pad2d pad2d_grad pad3d pad3d_grad pad_constant_like pad_constant_like_grad pad_grad",  # noqa: E501
    "pir_ops": "cast_rounded",  # noqa: E501
    "pooling": "pool2d pool2d_grad pool3d pool3d_grad",  # noqa: E501
    "pooling_index": "max_pool2d_with_index max_pool2d_with_index_grad max_pool3d_with_index max_pool3d_with_index_grad spp spp_grad unpool unpool3d unpool3d_grad unpool_grad",  # noqa: E501
    "products": "cross cross_grad dist dist_grad dot dot_grad kron kron_grad trace trace_grad",  # noqa: E501
    "quantize": "dequantize_abs_max dequantize_linear dequantize_log fake_channel_wise_dequantize_max_abs fake_channel_wise_quantize_abs_max fake_channel_wise_quantize_dequantize_abs_max fake_dequantize_max_abs fake_quantize_abs_max fake_quantize_dequantize_abs_max fake_quantize_dequantize_moving_average_abs_max fake_quantize_moving_average_abs_max fake_quantize_range_abs_max moving_average_abs_max_scale quantize_linear stright_throuth_estimator_grad",  # noqa: E501
    "quantize_stored": "dequantize quant_linear quantize requantize",  # noqa: E501
    "random_ops": "bernoulli dirichlet exponential gaussian_inplace gaussian_inplace_grad gaussian_random gaussian_random_batch_size_like multinomial poisson poisson_grad randint random_crop randperm sampling_id seed shuffle_batch shuffle_batch_grad truncated_gaussian_random uniform_random uniform_random_batch_size_like uniform_random_inplace uniform_random_inplace_grad",  # noqa: E501
    "recommend": "class_center_sample hash tdm_child tdm_sampler",  # noqa: E501
    "reduce": "reduce_all reduce_amax reduce_amax_grad reduce_amin reduce_amin_grad reduce_any reduce_max reduce_max_grad reduce_mean reduce_mean_grad reduce_min reduce_min_grad reduce_prod reduce_prod_grad reduce_sum reduce_sum_grad",  # noqa: E501
    "reduce_norm": "frobenius_norm frobenius_norm_grad l1_norm l1_norm_grad logsumexp logsumexp_grad nanmedian nanmedian_grad norm norm_grad p_norm p_norm_grad squared_l2_norm squared_l2_norm_grad",  # noqa: E501
    "rnn": "cudnn_lstm cudnn_lstm_grad rnn rnn_grad",  # noqa: E501
    "rnn_legacy": "gru gru_grad gru_unit gru_unit_grad lstm lstm_grad lstm_unit lstm_unit_grad",  # noqa: E501
    "rnn_projected": "lstmp lstmp_grad",  # noqa: E501
    "roi": "prroi_pool prroi_pool_grad psroi_pool psroi_pool_grad roi_align roi_align_grad roi_pool roi_pool_grad",  # noqa: E501
    "scale": "clip clip_by_norm clip_grad increment scale",  # noqa: E501
    "scatter": "index_add index_add_grad index_put index_put_grad put_along_axis put_along_axis_grad scatter scatter_grad scatter_nd_add scatter_nd_add_grad",  # noqa: E501
    "sequence": "lod_reset lod_reset_grad sequence_concat sequence_concat_grad sequence_expand sequence_expand_as sequence_expand_as_grad sequence_expand_grad sequence_pad sequence_pad_grad sequence_reshape sequence_reshape_grad sequence_reverse sequence_scatter sequence_scatter_grad sequence_slice sequence_slice_grad sequence_unpad sequence_unpad_grad",  # noqa: E501
    "sequence_array": "array_to_lod_tensor lod_rank_table lod_tensor_to_array max_sequence_len merge_lod_tensor merge_lod_tensor_infer reorder_lod_tensor_by_rank reorder_lod_tensor_by_rank_grad rnn_memory_helper rnn_memory_helper_grad shrink_rnn_memory shrink_rnn_memory_grad split_lod_tensor",  # noqa: E501
    "sequence_chunks": "chunk_eval",  # noqa: E501
    "sequence_image": "filter_by_instag filter_by_instag_grad im2sequence im2sequence_grad",  # noqa: E501
    "sequence_math": "row_conv row_conv_grad sequence_conv sequence_conv_grad sequence_enumerate sequence_erase sequence_pool sequence_pool_grad sequence_softmax sequence_softmax_grad",  # noqa: E501
    "set_value": "set_value set_value_grad",  # noqa: E501
    "shape_ops": "flatten flatten2 flatten2_grad flatten_contiguous_range flatten_contiguous_range_grad flatten_grad reshape reshape2 reshape2_grad reshape2_grad_grad reshape_grad shape shape64 size squeeze squeeze2 squeeze2_grad squeeze_grad unsqueeze unsqueeze2 unsqueeze2_grad unsqueeze_grad view_dtype view_dtype_grad view_shape view_shape_grad",  # noqa: E501
    "slice": "slice slice_grad strided_slice strided_slice_grad",  # noqa: E501
    "softmax": "fused_softmax_mask fused_softmax_mask_grad fused_softmax_mask_upper_triangle fused_softmax_mask_upper_triangle_grad gumbel_softmax gumbel_softmax_grad log_softmax log_softmax_grad softmax softmax_grad",  # noqa: E501
    "sort_search": "arg_max arg_min argsort argsort_grad kthvalue kthvalue_grad mode mode_grad searchsorted top_k top_k_grad top_k_v2 top_k_v2_grad",  # noqa: E501
    "strided": "as_strided as_strided_grad index_select_strided index_select_strided_grad tensor_unfold tensor_unfold_grad",  # noqa: E501
    "sums": "identity_loss identity_loss_grad label_smooth label_smooth_grad mean mean_grad multiplex multiplex_grad sum",  # noqa: E501
    "tensor_array": "lod_array_length read_from_array tensor_array_to_tensor tensor_array_to_tensor_grad write_to_array",  # noqa: E501
    "text_match": "match_matrix_tensor match_matrix_tensor_grad sequence_topk_avg_pooling sequence_topk_avg_pooling_grad similarity_focus var_conv_2d var_conv_2d_grad",  # noqa: E501
    "transpose": "flip fused_transpose reverse roll roll_grad transpose transpose2 transpose2_grad transpose_grad",  # noqa: E501
    "unary": "abs abs_double_grad abs_grad acos acos_grad acosh acosh_grad asin asin_grad asinh asinh_grad atan atan_grad atanh atanh_grad ceil ceil_grad cos cos_double_grad cos_grad cosh cosh_grad cosh_grad_grad exp exp_grad exp_grad_grad expm1 expm1_grad expm1_grad_grad floor floor_grad log log10 log10_grad log1p log1p_grad log2 log2_grad log_grad log_grad_grad logit logit_grad pow pow_double_grad pow_grad reciprocal reciprocal_grad reciprocal_grad_grad round round_grad rsqrt rsqrt_grad rsqrt_grad_grad sign sin sin_double_grad sin_grad sinh sinh_grad sinh_grad_grad sqrt sqrt_grad sqrt_grad_grad square square_grad square_grad_grad tan tan_grad trunc trunc_grad",  # noqa: E501
    "unary_special": "digamma digamma_grad erf erf_grad erfinv erfinv_grad i0 i0_grad i0e i0e_grad i1 i1_grad i1e i1e_grad lgamma lgamma_grad polygamma polygamma_grad",  # noqa: E501
    "unfold": "fold fold_grad unfold unfold_grad",  # noqa: E501
    "unique": "bincount histogram unique unique_consecutive unique_with_counts",  # noqa: E501
    "vision": "affine_channel affine_channel_grad channel_shuffle channel_shuffle_grad fsp fsp_grad lrn lrn_grad pixel_shuffle pixel_shuffle_grad pixel_unshuffle pixel_unshuffle_grad shuffle_channel shuffle_channel_grad space_to_depth space_to_depth_grad temporal_shift temporal_shift_grad",  # noqa: E501
}
# fmt: on

FAMILY_OF = {type: family for family, types in _TYPES.items() for type in types.split()}
"""Op type -> module under executor/kernels."""

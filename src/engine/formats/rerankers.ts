/** What tells that a model ranks documents, in every format. */

/** GGUF's `pooling_type` of models that rank documents. */
export const rankPooling = 4;

/** The name of a Qwen3-Reranker, which has the architecture of a model that generates. */
export const qwen3RerankerName = /qwen3[-_ ]?(vl[-_ ]?)?reranker/i;

import type { RemoteFile } from './choose.ts';

/** Vocabulary, settings and templates at the top level of the folder. */
const settingsFile =
  /^(config|generation_config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|modules|config_sentence_transformers|sentence_bert_config|chat_template|mlc-chat-config|tensor-cache|ndarray-cache|model\.safetensors\.index)\.json$|^(merges|vocab)\.txt$|^(tokenizer|sentencepiece\.bpe|spiece)\.model$|^[\w.-]+\.jinja$/;
/** Modules of an embedding model: `1_Pooling/config.json`, `2_Dense/model.safetensors`. */
const moduleFile = /^\d+_\w+\/(config\.json|model\.safetensors)$/;
const mlcShard = /^params_shard_\d+\.bin$/;
/** Weights that config.json describes. Files named otherwise may be `consolidated` or have another precision. */
const modelWeights = /^model(-\d{5}-of-\d{5})?\.safetensors$/;
const otherWeights = /^(?!consolidated|adapter_model)[^/]+\.safetensors$/;

/** The files of a Hugging Face or MLC folder that the engine reads; undefined when the repository is neither. */
export const folderModel = (files: readonly RemoteFile[]): RemoteFile[] | undefined => {
  const paths = files.map(({ path }) => path);
  const mlc = paths.includes('mlc-chat-config.json') && paths.some((path) => mlcShard.test(path));
  const weights = mlc
    ? mlcShard
    : paths.some((path) => modelWeights.test(path))
      ? modelWeights
      : otherWeights;
  if (!mlc && !(paths.includes('config.json') && paths.some((path) => weights.test(path)))) return undefined;
  return files.filter(({ path }) => settingsFile.test(path) || moduleFile.test(path) || weights.test(path));
};

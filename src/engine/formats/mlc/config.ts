import { isRecord, type Json } from '../../../util/json.ts';
import type { ModelFiles } from '../../platform.ts';
import { readJsonObjectFile } from '../json-file.ts';
import { ModelFileError } from '../model-file.ts';
import { type Quantization, parseQuantization } from './quantization.ts';

export const configFileName = 'mlc-chat-config.json';

export interface MlcConfig {
  /** The equivalent config.json of transformers. */
  readonly model: Json;
  readonly quantization: Quantization;
  /** `conv_template`: the chat format, either inline or only its name. */
  readonly conversation: unknown;
}

/**
 * Reads mlc-chat-config.json and converts it to transformers' config.json.
 * @throws ModelFileError `not_found`, `corrupt`, `unsupported_architecture` or `unsupported_type`
 */
export const readMlcConfig = async (files: ModelFiles): Promise<MlcConfig> => {
  const json = await readJsonObjectFile(files, configFileName);
  if (!json) throw new ModelFileError('not_found', `${files.name}: there is no file '${configFileName}'`);
  const { model_type: type, model_config: modelConfig, quantization, conv_template: conversation } = json;
  if (typeof type !== 'string' || !isRecord(modelConfig)) {
    throw new ModelFileError(
      'corrupt',
      `${files.name}: ${configFileName} must have 'model_type' and 'model_config'; download it again`,
    );
  }
  return {
    model: toTransformersConfig(type, json, modelConfig),
    quantization: parseQuantization(files.name, quantization),
    conversation,
  };
};

/** Keys of transformers by MLC's key. */
const transformersKeys: Readonly<Record<string, string>> = {
  position_embedding_base: 'rope_theta',
  context_window_size: 'max_position_embeddings',
  sliding_window_size: 'sliding_window',
};

const toTransformersConfig = (type: string, json: Json, modelConfig: Json): Json => {
  const { text_config: text, kwargs, ...rest } = modelConfig;
  const config: Record<string, unknown> = {
    ...(isRecord(kwargs) ? kwargs : {}),
    ...rest,
    ...(isRecord(text) ? { ...text, ...(isRecord(text['kwargs']) ? text['kwargs'] : {}) } : {}),
    model_type: type,
    vocab_size: modelConfig['vocab_size'] ?? json['vocab_size'],
    bos_token_id: json['bos_token_id'],
    eos_token_id: json['eos_token_id'],
    pad_token_id: json['pad_token_id'],
  };
  for (const [mlcKey, transformersKey] of Object.entries(transformersKeys)) {
    const value = config[mlcKey] ?? json[mlcKey];
    if (config[transformersKey] !== undefined || typeof value !== 'number') continue;
    // -1 and 0 mean no window. An absent key would mean the default window of the family.
    if (value > 0) config[transformersKey] = value;
    else if (transformersKey === 'sliding_window') config[transformersKey] = null;
  }
  // MLC's Gemma configurations have a number here; transformers expects an object or nothing.
  if (!isRecord(config['rope_scaling'])) delete config['rope_scaling'];
  return config;
};

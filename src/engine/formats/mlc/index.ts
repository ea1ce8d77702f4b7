import type { Json } from '../../../util/json.ts';
import type { ByteSource, ModelFiles } from '../../platform.ts';
import { readChatTemplates } from '../hugging-face/chat-templates.ts';
import { ModelConfig } from '../hugging-face/config.ts';
import { findFamily } from '../hugging-face/families/registry.ts';
import { readJsonFile, readJsonObjectFile } from '../json-file.ts';
import { MetadataWriter } from '../hugging-face/metadata-writer.ts';
import { countEmbeddingRows } from '../hugging-face/convert-tensors.ts';
import { tokenizerMetadata } from '../hugging-face/tokenizer.ts';
import { type MetadataArray, type MetadataScalar, type ModelFile, ModelFileError } from '../model-file.ts';
import { checkRows } from '../rows.ts';
import { configFileName, readMlcConfig } from './config.ts';
import { createConversationTemplate } from './conversation-template.ts';
import { readArrays } from './tensor-cache.ts';
import { readStoredTensors } from './stored-tensors.ts';
import { convertStoredTensors } from './convert-stored.ts';

/**
 * Opens a folder of MLC weights (`mlc-chat-config.json`, `tensor-cache.json` and its shards) with the metadata and
 * tensors that llama.cpp's converter would write to GGUF, in blocks that hold the same values. Reads only
 * configuration; `readRows` reads weights.
 * @throws ModelFileError `not_found`, `unsupported_architecture`, `unsupported_type`, `unsupported_tensors`,
 *   `bad_config`, `bad_tensors`, `truncated` or `corrupt`; the message names the file and what to do
 */
export const openMlc = async (files: ModelFiles): Promise<ModelFile> => {
  const opened: ByteSource[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((source) => source.close()));
  };
  try {
    return { ...(await readModel(files, opened)), close };
  } catch (error) {
    await close();
    throw error;
  }
};

const readModel = async (files: ModelFiles, opened: ByteSource[]): Promise<Omit<ModelFile, 'close'>> => {
  const { name } = files;
  const { model, quantization, conversation } = await readMlcConfig(files);
  const family = findFamily(name, model);
  const config = new ModelConfig(name, model, family.defaults);
  const writer = new MetadataWriter(family.architecture);
  family.writeMetadata(config, writer);
  const notes: string[] = [];
  config.assertValid();

  const problems: string[] = [];
  const stored = readStoredTensors(await readArrays(files, opened), { config, quantization }, problems);
  const tensors = convertStoredTensors(stored, { name, family, config }, problems);
  if (!tensors.has('output.weight') && config.get('tie_word_embeddings') !== true) {
    throw new ModelFileError(
      'bad_tensors',
      `${name}: there is no tensor 'lm_head', and ${configFileName} does not set tie_word_embeddings`,
    );
  }
  const vocabulary = countEmbeddingRows(name, tensors);
  const tokenizer = await readTokenizer(files, { ...model, vocab_size: vocabulary }, conversation);
  if (!tokenizer.has('tokenizer.chat_template')) {
    notes.push(
      `the model has no chat template: neither tokenizer_config.json nor conv_template of ${configFileName} defines one`,
    );
  }
  return {
    format: 'mlc',
    name,
    sizeBytes: opened.reduce((sum, source) => sum + source.sizeBytes, 0),
    metadata: new Map([...writer.entries, ...tokenizer]),
    tensors: new Map([...tensors].map(([key, { info }]) => [key, info])),
    ...(notes.length > 0 ? { notes } : {}),
    async readRows(tensor, firstRow, rows, into) {
      const tensorReader = tensors.get(tensor.name);
      if (!tensorReader) throw new RangeError(`${name} has no tensor '${tensor.name}'`);
      checkRows(tensorReader.info, firstRow, rows);
      return tensorReader.read(firstRow, rows, into);
    },
  };
};

const readTokenizer = async (
  files: ModelFiles,
  config: Json,
  conversation: unknown,
): Promise<Map<string, MetadataScalar | MetadataArray>> => {
  const tokenizer = await readJsonFile(files, 'tokenizer.json');
  if (tokenizer === undefined) {
    throw new ModelFileError(
      'not_found',
      `${files.name}: there is no file 'tokenizer.json'; copy it from the original model`,
    );
  }
  const tokenizerConfig = await readJsonObjectFile(files, 'tokenizer_config.json');
  const metadata = tokenizerMetadata({ tokenizer, tokenizerConfig, config });
  const templates = await readChatTemplates(files, tokenizerConfig);
  const conversationTemplate =
    templates.size === 0 ? createConversationTemplate(conversation, config['bos_token_id']) : undefined;
  if (conversationTemplate !== undefined) templates.set('tokenizer.chat_template', conversationTemplate);
  return new Map([...metadata, ...templates]);
};

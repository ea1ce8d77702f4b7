import { isRecord, type Json } from '../../../util/json.ts';
import type { ByteSource, ModelFiles } from '../../platform.ts';
import { type MetadataArray, type MetadataScalar, type ModelFile, ModelFileError } from '../model-file.ts';
import { checkRows } from '../rows.ts';
import { readChatTemplates } from './chat-templates.ts';
import { ModelConfig } from './config.ts';
import { markQwen3Reranker } from './families/rank-head.ts';
import { findFamily } from './families/registry.ts';
import type { ModelFamily } from './family.ts';
import { readJsonFile, readJsonObjectFile, readTextFile } from '../json-file.ts';
import { MetadataWriter } from './metadata-writer.ts';
import { countEmbeddingRows, type ConvertedTensor, convertTensors } from './convert-tensors.ts';
import { readSentenceModules } from './sentence-modules.ts';
import { tokenizerMetadata } from './tokenizer.ts';
import { type LocatedTensor, readWeightFiles } from './weight-files.ts';

/**
 * Opens a Hugging Face model folder with the metadata and tensors that llama.cpp's converter would write to GGUF. Reads
 * only headers and configuration; `readRows` reads weights.
 * @throws ModelFileError `not_found`, `unsupported_architecture`, `bad_config`, `unsupported_tensors`,
 *   `unsupported_type`, `unsupported_pooling`, `bad_tensors`, `truncated` or `corrupt`; the message names the file and
 *   what to do
 */
export const openHuggingFace = async (files: ModelFiles): Promise<ModelFile> => {
  const opened: ByteSource[] = [];
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((source) => source.close()));
  };
  try {
    const model = await readModel(files, opened);
    return { ...model, sizeBytes: opened.reduce((sum, source) => sum + source.sizeBytes, 0), close };
  } catch (error) {
    await close();
    throw error;
  }
};

const readModel = async (
  files: ModelFiles,
  opened: ByteSource[],
): Promise<Omit<ModelFile, 'sizeBytes' | 'close'>> => {
  const { name } = files;
  const json = await readConfig(files);
  const family = findFamily(name, json);
  rejectQuantizedWeights(name, json, family.quantMethod);
  const config = new ModelConfig(name, json, family.defaults);
  const writer = new MetadataWriter(family.architecture);
  family.writeMetadata(config, writer);
  config.assertValid();

  const stored = await readWeightFiles(files, opened);
  const ranks = await isReranker(files, { family, config, writer });
  const { hasPooling, denseTensors } = ranks
    ? { hasPooling: false, denseTensors: new Map<string, LocatedTensor>() }
    : await readSentenceModules(files, { family, writer, opened });
  const tensors = convertTensors(new Map([...stored, ...denseTensors]), { family, config, name });
  if (!hasPooling) assertOutputTensor(files, config, tensors);
  const tokenizer = await readTokenizer(files, json, tensors);
  return {
    format: 'hugging-face',
    name,
    metadata: new Map([...writer.entries, ...tokenizer]),
    tensors: new Map([...tensors].map(([key, { info }]) => [key, info])),
    async readRows(tensor, firstRow, rows, into) {
      const tensorReader = tensors.get(tensor.name);
      if (!tensorReader) throw new RangeError(`${name} has no tensor '${tensor.name}'`);
      checkRows(tensorReader.info, firstRow, rows);
      return tensorReader.read(firstRow, rows, into);
    },
  };
};

/** Whether the model ranks documents: its class says so, or it is a Qwen3-Reranker. */
const isReranker = async (
  files: ModelFiles,
  { family, config, writer }: { family: ModelFamily; config: ModelConfig; writer: MetadataWriter },
): Promise<boolean> => {
  if (writer.entries.has(`${family.architecture}.pooling_type`)) return true;
  if (family.architecture !== 'qwen3') return false;
  return markQwen3Reranker(config, (await readTextFile(files, 'README.md')) ?? '', writer);
};

/** Reads config.json and merges the text model's section into the top level. */
const readConfig = async (files: ModelFiles): Promise<Json> => {
  const json = await readJsonObjectFile(files, 'config.json');
  if (!json) throw new ModelFileError('not_found', `${files.name}: there is no file 'config.json'`);
  const { text_config: text, model_type, architectures } = json;
  if (!isRecord(text)) return json;
  // The top-level model_type identifies the model; that of the section only identifies the section.
  return { ...json, ...text, model_type, architectures: text.architectures ?? architectures };
};

/** @param readable the supported `quant_method` of the family */
const rejectQuantizedWeights = (
  name: string,
  { quantization_config: quantization }: Json,
  readable: string | undefined,
): void => {
  if (!isRecord(quantization)) return;
  const { quant_method: method } = quantization;
  if (method === readable && readable !== undefined) return;
  const also = readable === undefined ? '' : ` (supported: ${readable})`;
  throw new ModelFileError(
    'unsupported_type',
    `${name}: config.json: the weights are quantized by ${typeof method === 'string' ? method : 'an unknown method'}${also}; ` +
      'get the original weights (F32, F16 or BF16), or a GGUF file',
  );
};

/** Checks that a model with untied embeddings has an output matrix. */
const assertOutputTensor = (
  { name }: ModelFiles,
  config: ModelConfig,
  tensors: ReadonlyMap<string, ConvertedTensor>,
): void => {
  if (tensors.has('output.weight') || config.get('tie_word_embeddings') !== false) return;
  // Base models have no output matrix.
  const [architecture] = (config.get('architectures') ?? []) as unknown[];
  if (!/For(CausalLM|ConditionalGeneration)$/.test(String(architecture))) return;
  throw new ModelFileError(
    'bad_tensors',
    `${name}: there is no tensor 'lm_head.weight', but config.json sets tie_word_embeddings to false`,
  );
};

/** Reads the folder's tokenizer and chat templates as GGUF metadata. */
const readTokenizer = async (
  files: ModelFiles,
  config: Json,
  tensors: ReadonlyMap<string, ConvertedTensor>,
): Promise<Map<string, MetadataScalar | MetadataArray>> => {
  const tokenizer = await readJsonFile(files, 'tokenizer.json');
  if (tokenizer === undefined) {
    throw new ModelFileError(
      'not_found',
      `${files.name}: there is no file 'tokenizer.json'; other tokenizer files are not supported; to write ` +
        "this file, call save_pretrained on AutoTokenizer's tokenizer",
    );
  }
  const tokenizerConfig = await readJsonObjectFile(files, 'tokenizer_config.json');
  const metadata = tokenizerMetadata({
    tokenizer,
    tokenizerConfig,
    specialTokensMap: await readJsonObjectFile(files, 'special_tokens_map.json'),
    generationConfig: await readJsonObjectFile(files, 'generation_config.json'),
    config: { ...config, vocab_size: countEmbeddingRows(files.name, tensors) },
  });
  return new Map([...metadata, ...(await readChatTemplates(files, tokenizerConfig))]);
};

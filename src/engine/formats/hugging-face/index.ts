import { isRecord, type Json } from '../../../util/json.ts';
import type { ByteSource, ModelFiles } from '../../platform.ts';
import { type MetadataArray, type MetadataScalar, type ModelFile, ModelFileError } from '../model-file.ts';
import { checkRows } from '../rows.ts';
import { readChatTemplates } from './chat-templates.ts';
import { Config } from './config.ts';
import { familyOf } from './families/registry.ts';
import { readJson, readObject } from '../json-file.ts';
import { Keys } from './keys.ts';
import { embeddedTokens, type Presented, presentTensors } from './present.ts';
import { readModules } from './sentence.ts';
import { tokenizerMetadata } from './tokenizer.ts';
import { readWeightFiles } from './weight-files.ts';

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
  const family = familyOf(name, json);
  refuseQuantised(name, json, family.packing);
  const config = new Config(name, json, family.defaults);
  const keys = new Keys(family.architecture);
  family.metadata(config, keys);
  config.check();

  const stored = await readWeightFiles(files, opened);
  const { pools, dense } = await readModules(files, { family, keys, opened });
  const tensors = presentTensors(new Map([...stored, ...dense]), { family, config, name });
  if (!pools) checkHead(files, config, tensors);
  const tokenizer = await readTokenizer(files, json, tensors);
  return {
    format: 'hugging-face',
    name,
    metadata: new Map([...keys.entries, ...tokenizer]),
    tensors: new Map([...tensors].map(([key, { info }]) => [key, info])),
    async readRows(tensor, firstRow, rows, into) {
      const found = tensors.get(tensor.name);
      if (!found) throw new RangeError(`${name} has no tensor '${tensor.name}'`);
      checkRows(found.info, firstRow, rows);
      return found.read(firstRow, rows, into);
    },
  };
};

/** Reads config.json and merges the text model's section into the top level. */
const readConfig = async (files: ModelFiles): Promise<Json> => {
  const json = await readObject(files, 'config.json');
  if (!json) throw new ModelFileError('not_found', `${files.name}: there is no file 'config.json'`);
  const { text_config: text, model_type, architectures } = json;
  if (!isRecord(text)) return json;
  // The top-level model_type identifies the model; that of the section only identifies the section.
  return { ...json, ...text, model_type, architectures: text.architectures ?? architectures };
};

/** @param readable the supported `quant_method` of the family */
const refuseQuantised = (
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
const checkHead = ({ name }: ModelFiles, config: Config, tensors: ReadonlyMap<string, Presented>): void => {
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
  tensors: ReadonlyMap<string, Presented>,
): Promise<Map<string, MetadataScalar | MetadataArray>> => {
  const tokenizer = await readJson(files, 'tokenizer.json');
  if (tokenizer === undefined) {
    throw new ModelFileError(
      'not_found',
      `${files.name}: there is no file 'tokenizer.json'; other tokenizer files are not supported; to write ` +
        "this file, call save_pretrained on AutoTokenizer's tokenizer",
    );
  }
  const tokenizerConfig = await readObject(files, 'tokenizer_config.json');
  const metadata = tokenizerMetadata({
    tokenizer,
    tokenizerConfig,
    specialTokensMap: await readObject(files, 'special_tokens_map.json'),
    generationConfig: await readObject(files, 'generation_config.json'),
    config: { ...config, vocab_size: embeddedTokens(files.name, tensors) },
  });
  return new Map([...metadata, ...(await readChatTemplates(files, tokenizerConfig))]);
};

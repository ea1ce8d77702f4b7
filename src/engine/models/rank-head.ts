/** Reads the head of a model that ranks documents: which files have one, and its last layer. */
import { dequantizeRows } from '../../../kernels/reference/dequantize.ts';
import { type ModelFile, ModelFileError, type TensorInfo } from '../formats/model-file.ts';
import { qwen3RerankerName, rankPooling } from '../formats/rerankers.ts';
import { bytesOfRow, columnsOf, rowsOf } from '../formats/rows.ts';
import type { RankHead } from '../graph/graph.ts';
import { requireFinite } from '../loading/finite.ts';
import { metadataValue, readNumber } from './metadata.ts';

const outputName = 'cls.output.weight';

/**
 * Whether the file has a classification head: its pooling says so, or it names no pooling and has the last layer of
 * one. llama.cpp's converter writes no pooling for most of them.
 */
export function hasRankHead(file: ModelFile): boolean {
  const type = readNumber(file, 'pooling_type', 0);
  return type === rankPooling || (type === 0 && file.tensors.has(outputName));
}

/**
 * Whether a file of the architecture `qwen3` is a Qwen3-Reranker: by its head or pooling, or else by its name or the last
 * part of its path, not the folders above.
 */
export function isQwen3Reranker(file: ModelFile): boolean {
  if (readNumber(file, 'pooling_type', 0) !== 0 || file.tensors.has(outputName)) return hasRankHead(file);
  const names = [
    file.metadata.get('general.name'),
    file.metadata.get('general.basename'),
    file.name.split(/[\\/]/).findLast((part) => part !== ''),
  ];
  return names.some((name) => typeof name === 'string' && qwen3RerankerName.test(name));
}

/**
 * Reads the last layer of a head with one label.
 * @throws ModelFileError `missing_tensor`, `bad_tensors`, `corrupt`; `unsupported_architecture` for several labels
 */
export async function readRankHead(
  file: ModelFile,
  { pairs, activation }: Pick<RankHead, 'pairs' | 'activation'>,
): Promise<RankHead> {
  const output = requireOutput(file);
  const labels = rowsOf(output);
  if (labels !== 1) throw severalLabelsError(file, labels, '1');
  const weights = Float64Array.from(await readRow(file, output, 0));
  return { pairs, activation, weights, bias: await readBias(file, labels, 0) };
}

/**
 * Reads the head of a Qwen3-Reranker: the rows of "yes" and "no" of `cls.output`, or of the output matrix. The score
 * is the difference of their logits, so their softmax is its sigmoid.
 * @throws as `readRankHead`
 */
export async function readQwen3RankHead(file: ModelFile): Promise<RankHead> {
  const pairs = 'qwen3-reranker';
  const labels = file.tensors.has(outputName) ? rowsOf(requireOutput(file)) : 0;
  if (labels === 1) return await readRankHead(file, { pairs, activation: 'none' });
  if (labels > 2) throw severalLabelsError(file, labels, '1, or 2: yes and no');
  const output = labels === 2 ? requireOutput(file) : requireVocabularyRows(file);
  const [yesRow, noRow] = labels === 2 ? labelRows(file) : tokenRows(file);
  const [yes, no] = [await readRow(file, output, yesRow), await readRow(file, output, noRow)];
  const bias =
    labels === 2 ? (await readBias(file, labels, yesRow)) - (await readBias(file, labels, noRow)) : 0;
  const weights = Float64Array.from(yes, (value, at) => value - (no[at] as number));
  return { pairs, activation: 'none', weights, bias };
}

function requireOutput(file: ModelFile): TensorInfo {
  const output = file.tensors.get(outputName);
  if (!output)
    throw new ModelFileError(
      'missing_tensor',
      `${file.name}: tensor '${outputName}', the last layer of the classification head, is missing`,
    );
  return requireWidth(file, output);
}

function requireVocabularyRows(file: ModelFile): TensorInfo {
  const output = file.tensors.get('output.weight') ?? file.tensors.get('token_embd.weight');
  if (!output)
    throw new ModelFileError('missing_tensor', `${file.name}: tensor 'token_embd.weight' is missing`);
  return requireWidth(file, output);
}

function requireWidth(file: ModelFile, tensor: TensorInfo): TensorInfo {
  const width = readNumber(file, 'embedding_length');
  if (tensor.shape.length === 2 && columnsOf(tensor) === width) return tensor;
  throw new ModelFileError(
    'bad_tensors',
    `${file.name}: tensor '${tensor.name}' must have rows of ${width} elements, got [${tensor.shape.join(', ')}]`,
  );
}

const severalLabelsError = (file: ModelFile, labels: number, supported: string): ModelFileError =>
  new ModelFileError(
    'unsupported_architecture',
    `${file.name}: its head has ${labels} labels, so it classifies texts and does not rank documents (supported: ${supported})`,
  );

/** Rows of yes and no in `cls.output`; the file lists its labels, and yes comes first where it does not. */
function labelRows(file: ModelFile): readonly [yes: number, no: number] {
  const listed = metadataValue(file, 'classifier.output_labels');
  const labels = Array.isArray(listed) ? listed.map(String) : ['yes', 'no'];
  const rows = [labels.indexOf('yes'), labels.indexOf('no')] as const;
  if (labels.length === 2 && !rows.includes(-1)) return rows;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata 'qwen3.classifier.output_labels' must hold yes and no, got ${labels.slice(0, 8).join(', ')}`,
  );
}

/** Ids of the tokens "yes" and "no". */
function tokenRows(file: ModelFile): readonly [yes: number, no: number] {
  const tokens = file.metadata.get('tokenizer.ggml.tokens');
  const idOf = (text: string) => (Array.isArray(tokens) ? tokens.indexOf(text) : -1);
  const rows = [idOf('yes'), idOf('no')] as const;
  if (!rows.includes(-1)) return rows;
  throw new ModelFileError(
    'invalid_tokenizer',
    `${file.name}: the vocabulary lacks the tokens 'yes' and 'no', by which Qwen3-Reranker answers`,
  );
}

async function readRow(file: ModelFile, tensor: TensorInfo, row: number): Promise<Float32Array> {
  const read = await file.readRows(tensor, row, 1);
  // Readers may return a view at any position of a shared buffer.
  const bytes = Uint8Array.from(read.subarray(0, bytesOfRow(tensor)));
  requireFinite(file.name, tensor, bytes, row);
  return Float32Array.from(dequantizeRows(tensor.type, bytes, { rows: 1, columns: columnsOf(tensor) }));
}

/** An element of `cls.output.bias`; 0 where the head has none. */
async function readBias(file: ModelFile, labels: number, label: number): Promise<number> {
  const tensor = file.tensors.get('cls.output.bias');
  if (!tensor) return 0;
  if (tensor.shape.length !== 1 || columnsOf(tensor) !== labels)
    throw new ModelFileError(
      'bad_tensors',
      `${file.name}: tensor 'cls.output.bias' must be [${labels}], got [${tensor.shape.join(', ')}]`,
    );
  return (await readRow(file, tensor, 0))[label] as number;
}

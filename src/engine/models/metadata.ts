import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { Embedding, ExpertShape, Shape } from '../graph/graph.ts';

const metadataKey = (file: ModelFile, key: string): string =>
  `${String(file.metadata.get('general.architecture'))}.${key}`;

/** Raw value of `<architecture>.<key>`. */
export const metadataValue = (file: ModelFile, key: string) => file.metadata.get(metadataKey(file, key));

/** Reads `<architecture>.<key>` as a finite number. Without a fallback, a missing key is an error. */
export function readNumber(file: ModelFile, key: string, fallback?: number): number {
  const value = metadataValue(file, key);
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  if (value === undefined && fallback !== undefined) return fallback;
  const actual = value === undefined ? 'nothing' : typeof number === 'number' ? String(number) : typeof value;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${metadataKey(file, key)}' must be a number, got ${actual}`,
  );
}

/**
 * Reads `<architecture>.<key>` as an integer in an inclusive range.
 * @param fallback value for a missing key, which is an error otherwise
 * @param why reason for the range, for the message
 * @throws ModelFileError `bad_metadata`
 */
export function readWhole(
  file: ModelFile,
  key: string,
  [min, max]: readonly [number, number],
  { fallback, why }: { fallback?: number; why?: string } = {},
): number {
  const value = readNumber(file, key, fallback);
  if (Number.isInteger(value) && value >= min && value <= max) return value;
  const because = why === undefined ? '' : ` (${why})`;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${metadataKey(file, key)}' must be a whole number from ${min} to ${max}${because}, got ${value}`,
  );
}

/**
 * Far more than any model has. The limit exists because a graph layer takes much more memory than its bytes in the
 * file.
 */
const maxLayers = 1 << 12;

/** Number of layers, for files whose layers differ. @throws ModelFileError `bad_metadata` */
export const readLayerCount = (file: ModelFile): number =>
  readWhole(file, 'block_count', [1, Math.min(file.tensors.size, maxLayers)]);

/**
 * Reads `<architecture>.attention.sliding_window`: number of positions that a token attends to, 0 when not specified.
 */
export function readWindow(file: ModelFile): number {
  const window = readNumber(file, 'attention.sliding_window', 0);
  if (Number.isInteger(window) && window >= 0) return window;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${metadataKey(file, 'attention.sliding_window')}' must be a whole number >= 0, got ${window}`,
  );
}

/**
 * Sliding window of each layer, 0 for full attention: only where the file lists which layers use it. Configurations
 * of models without windows specify a window size as well.
 */
export function readListedWindows(file: ModelFile): (layer: number) => number {
  const key = 'attention.sliding_window_pattern';
  if (typeof metadataValue(file, key) !== 'object') return () => 0;
  const window = readWindow(file);
  const isSliding = readLayerPattern(file, key, 0);
  return (layer) => (isSliding(layer) ? window : 0);
}

/** Reads `<architecture>.<key>` as a number. 0 counts as missing, because writers use it that way. */
export const readOptionalNumber = (file: ModelFile, key: string): number | undefined =>
  readNumber(file, key, 0) || undefined;

/**
 * Reads `<architecture>.<key>` as a boolean for each layer.
 * @param every period used when the file has neither a list nor a number: each `every`th layer is false, the others
 * true
 */
export function readLayerPattern(file: ModelFile, key: string, every: number): (layer: number) => boolean {
  const value = metadataValue(file, key);
  if (value !== undefined && typeof value === 'object') {
    const list = Array.from(value as ArrayLike<unknown>, Boolean);
    const layers = readNumber(file, 'block_count');
    if (list.length >= layers) return (layer) => list[layer] === true;
    throw new ModelFileError(
      'bad_metadata',
      `${file.name}: metadata '${metadataKey(file, key)}' must hold a value for each of ${layers} layers, got ${list.length}`,
    );
  }
  const period = readNumber(file, key, every);
  if (Number.isInteger(period) && period >= 0) return (layer) => (layer + 1) % period !== 0;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${metadataKey(file, key)}' must be a list or a whole number >= 0, got ${period}`,
  );
}

/**
 * Reads `<architecture>.<key>` as an integer >= 0 for each layer: a list, or one number for all.
 * @param fallback used when the file has neither
 */
export function readWholeByLayer(file: ModelFile, key: string, fallback?: number): (layer: number) => number {
  const value = metadataValue(file, key);
  const isList = value !== undefined && typeof value === 'object';
  const list = isList
    ? Array.from(value as ArrayLike<unknown>, (one) => (typeof one === 'string' ? Number.NaN : Number(one)))
    : [readNumber(file, key, fallback)];
  const layers = isList ? readNumber(file, 'block_count') : 1;
  const wrong = list.find((one) => !Number.isInteger(one) || one < 0);
  if (wrong === undefined && list.length >= layers) return (layer) => list[isList ? layer : 0] as number;
  const actual = wrong === undefined ? `${list.length} numbers for ${layers} layers` : String(wrong);
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${metadataKey(file, key)}' must be a whole number >= 0, or one for each layer, got ${actual}`,
  );
}

/** Properties that the metadata of Llama-like models does not specify uniformly. */
interface ShapeTraits extends Pick<Shape, 'ropes'> {
  readonly embeddingScale?: number;
  readonly hasSandwichNorms?: boolean;
  /** Epsilon of norms; defaults to that of RMS norms. */
  readonly eps?: number;
  readonly embedding?: Embedding | undefined;
  readonly experts?: ExpertShape | undefined;
  /** The maximum over all layers, when a file has a number for each. */
  readonly kvHeads?: number;
}

/** Reads the shape from the metadata keys of Llama-like models. */
export function readShape(
  file: ModelFile,
  { ropes, embeddingScale = 1, hasSandwichNorms = false, eps, embedding: end, experts, ...own }: ShapeTraits,
): Shape {
  const width = readNumber(file, 'embedding_length');
  const heads = readNumber(file, 'attention.head_count');
  const kvHeads = own.kvHeads ?? readNumber(file, 'attention.head_count_kv', heads);
  const headDim = readNumber(file, 'attention.key_length', width / heads);
  const embedding = file.tensors.get('token_embd.weight');
  if (!embedding) {
    throw new ModelFileError('missing_tensor', `${file.name}: tensor 'token_embd.weight' is missing`);
  }
  const shape: Shape = {
    layers: readNumber(file, 'block_count'),
    width,
    heads,
    kvHeads,
    headDim,
    feedForward: readNumber(file, 'feed_forward_length'),
    vocabulary: embedding.shape[0] ?? 0,
    eps: eps ?? readNumber(file, 'attention.layer_norm_rms_epsilon'),
    embeddingScale,
    ropes,
    hasSandwichNorms,
    trainedContext: readNumber(file, 'context_length'),
    ...(end ? { embedding: end } : {}),
    ...(experts ? { experts } : {}),
  };
  checkShape(file, shape);
  return shape;
}

/** Checks what the kernels require of a shape. @throws ModelFileError `bad_metadata` with all problems at once */
export function checkShape(file: ModelFile, shape: Shape): void {
  const problems: string[] = [];
  const requireWhole = (name: string, value: number) => {
    if (!Number.isInteger(value) || value < 1)
      problems.push(`${name} must be a whole number >= 1, got ${value}`);
  };
  requireWhole('block_count', shape.layers);
  // Checked before a graph with this many layers is built: each layer has tensors of its own.
  if (shape.layers > file.tensors.size) {
    problems.push(`block_count ${shape.layers} is more than the ${file.tensors.size} tensors of the file`);
  } else if (shape.layers > maxLayers) {
    problems.push(`block_count ${shape.layers} is more than any model has (${maxLayers})`);
  }
  requireWhole('embedding_length', shape.width);
  requireWhole('attention.head_count', shape.heads);
  requireWhole('attention.head_count_kv', shape.kvHeads);
  requireWhole('head dimension', shape.headDim);
  requireWhole('feed_forward_length', shape.feedForward);
  requireWhole('context_length', shape.trainedContext);
  requireWhole('vocabulary', shape.vocabulary);
  if (shape.heads % shape.kvHeads !== 0) {
    problems.push(`head_count ${shape.heads} must be a multiple of head_count_kv ${shape.kvHeads}`);
  }
  if (shape.width % 32 !== 0) problems.push(`embedding_length ${shape.width} must be a multiple of 32`);
  if ((shape.heads * shape.headDim) % 32 !== 0) {
    problems.push(`heads * head dimension ${shape.heads * shape.headDim} must be a multiple of 32`);
  }
  if (shape.headDim % 8 !== 0) problems.push(`head dimension ${shape.headDim} must be a multiple of 8`);
  const requirePositive = (name: string, value: number) => {
    const f32Value = Math.fround(value);
    if (!(value > 0)) problems.push(`${name} must be above 0, got ${value}`);
    else if (f32Value === 0 || f32Value === Number.POSITIVE_INFINITY)
      problems.push(`${name} must fit a 32-bit float, got ${value}`);
  };
  requirePositive('epsilon of norms', shape.eps);
  for (const { rotary, theta, scale, magnitude, factors, long } of shape.ropes) {
    requirePositive('rope.freq_base', theta);
    requirePositive('rope.scaling.factor', scale);
    requirePositive('rope.scaling.attn_factor', magnitude);
    if (long) requirePositive('rope.scaling.original_context_length', long.beyond);
    if (factors?.some((one) => !(one > 0))) {
      problems.push('the values of rope.scaling give frequency divisors that are not greater than 0');
    }
    if (rotary > 0 && rotary % 4 === 0 && rotary <= shape.headDim) continue;
    problems.push(`rope.dimension_count ${rotary} must be a multiple of 4, at most ${shape.headDim}`);
  }
  if (problems.length > 0)
    throw new ModelFileError('bad_metadata', `${file.name}: ${[...new Set(problems)].join('; ')}`);
}

/**
 * Checks that the weights of a graph exist with the expected shapes. @throws ModelFileError `bad_tensors` with all
 * problems at once
 */
export function requireTensors(file: ModelFile, expected: ReadonlyMap<string, readonly number[]>): void {
  const problems: string[] = [];
  for (const [name, shape] of expected) {
    const tensor = file.tensors.get(name);
    if (!tensor) problems.push(`tensor '${name}' is missing`);
    else if (
      tensor.shape.length !== shape.length ||
      tensor.shape.some((size, axis) => size !== shape[axis])
    ) {
      problems.push(`tensor '${name}' must be [${shape.join(', ')}], got [${tensor.shape.join(', ')}]`);
    }
  }
  if (problems.length > 0) {
    const shown = problems.slice(0, 8).join('; ');
    const more = problems.length > 8 ? ` and ${problems.length - 8} more` : '';
    throw new ModelFileError('bad_tensors', `${file.name}: ${shown}${more}`);
  }
}

import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { Embedding, ExpertShape, Shape } from '../graph.ts';

const keyOf = (file: ModelFile, key: string): string =>
  `${String(file.metadata.get('general.architecture'))}.${key}`;

/** `<architecture>.<key>`, whatever it is. */
export const fieldOf = (file: ModelFile, key: string) => file.metadata.get(keyOf(file, key));

/** Reads `<architecture>.<key>` as a finite number; without a fallback a missing key is an error. */
export function numberOf(file: ModelFile, key: string, fallback?: number): number {
  const value = fieldOf(file, key);
  const number = typeof value === 'bigint' ? Number(value) : value;
  if (typeof number === 'number' && Number.isFinite(number)) return number;
  if (value === undefined && fallback !== undefined) return fallback;
  const came = value === undefined ? 'nothing' : typeof number === 'number' ? String(number) : typeof value;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${keyOf(file, key)}' must be a number, got ${came}`,
  );
}

/**
 * Reads `<architecture>.<key>` as a whole number in a range, ends included.
 * @param fallback without one a missing key is an error
 * @param why the range is that, for the message
 * @throws ModelFileError `bad_metadata`
 */
export function wholeOf(
  file: ModelFile,
  key: string,
  [least, most]: readonly [number, number],
  { fallback, why }: { fallback?: number; why?: string } = {},
): number {
  const value = numberOf(file, key, fallback);
  if (Number.isInteger(value) && value >= least && value <= most) return value;
  const because = why === undefined ? '' : ` (${why})`;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${keyOf(file, key)}' must be a whole number from ${least} to ${most}${because}, got ${value}`,
  );
}

/** Far more than any model has: what is written down for each layer costs many times the file's own bytes for it. */
const mostLayers = 1 << 12;

/** Layers of a file whose layers are not alike. @throws ModelFileError `bad_metadata` */
export const layerCount = (file: ModelFile): number =>
  wholeOf(file, 'block_count', [1, Math.min(file.tensors.size, mostLayers)]);

/** Reads `<architecture>.attention.sliding_window`: positions that a token sees, 0 where the file names none. */
export function windowOf(file: ModelFile): number {
  const window = numberOf(file, 'attention.sliding_window', 0);
  if (Number.isInteger(window) && window >= 0) return window;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${keyOf(file, 'attention.sliding_window')}' must be a whole number >= 0, got ${window}`,
  );
}

/**
 * Windows of the layers, 0 where one sees everything: only where the file lists which layers slide. Configurations of
 * models without windows name one as well.
 */
export function listedWindows(file: ModelFile): (layer: number) => number {
  const key = 'attention.sliding_window_pattern';
  if (typeof fieldOf(file, key) !== 'object') return () => 0;
  const window = windowOf(file);
  const slides = patternOf(file, key, 0);
  return (layer) => (slides(layer) ? window : 0);
}

/** Reads `<architecture>.<key>` as a number; 0 stands for a key that is missing, as writers have it. */
export const optionalNumber = (file: ModelFile, key: string): number | undefined =>
  numberOf(file, key, 0) || undefined;

/**
 * Reads `<architecture>.<key>` as a value for each layer.
 * @param every where the file has none, or a number in place of the list: each `every`th layer is false, the others true
 */
export function patternOf(file: ModelFile, key: string, every: number): (layer: number) => boolean {
  const value = fieldOf(file, key);
  if (value !== undefined && typeof value === 'object') {
    const list = Array.from(value as ArrayLike<unknown>, Boolean);
    const layers = numberOf(file, 'block_count');
    if (list.length >= layers) return (layer) => list[layer] === true;
    throw new ModelFileError(
      'bad_metadata',
      `${file.name}: metadata '${keyOf(file, key)}' must hold a value for each of ${layers} layers, got ${list.length}`,
    );
  }
  const period = numberOf(file, key, every);
  if (Number.isInteger(period) && period >= 0) return (layer) => (layer + 1) % period !== 0;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${keyOf(file, key)}' must be a list or a whole number >= 0, got ${period}`,
  );
}

/**
 * Reads `<architecture>.<key>` as a whole number >= 0 of each layer: a list of them, or one for all.
 * @param fallback where the file has neither
 */
export function wholeByLayer(file: ModelFile, key: string, fallback?: number): (layer: number) => number {
  const value = fieldOf(file, key);
  const isList = value !== undefined && typeof value === 'object';
  const list = isList
    ? Array.from(value as ArrayLike<unknown>, (one) => (typeof one === 'string' ? Number.NaN : Number(one)))
    : [numberOf(file, key, fallback)];
  const layers = isList ? numberOf(file, 'block_count') : 1;
  const wrong = list.find((one) => !Number.isInteger(one) || one < 0);
  if (wrong === undefined && list.length >= layers) return (layer) => list[isList ? layer : 0] as number;
  const came = wrong === undefined ? `${list.length} numbers for ${layers} layers` : String(wrong);
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${keyOf(file, key)}' must be a whole number >= 0, or one for each layer, got ${came}`,
  );
}

/** What the metadata of the llama family does not say in the same words for all of it. */
interface ShapeTraits extends Pick<Shape, 'ropes'> {
  readonly embeddingScale?: number;
  readonly sandwich?: boolean;
  /** Of norms; by default that of RMS norms. */
  readonly eps?: number;
  readonly embedding?: Embedding | undefined;
  readonly experts?: ExpertShape | undefined;
  /** Of the layers with the most, where a file has a number for each. */
  readonly kvHeads?: number;
}

/** The shape as the llama family writes it down. */
export function shapeOf(
  file: ModelFile,
  { ropes, embeddingScale = 1, sandwich = false, eps, embedding: end, experts, ...own }: ShapeTraits,
): Shape {
  const width = numberOf(file, 'embedding_length');
  const heads = numberOf(file, 'attention.head_count');
  const kvHeads = own.kvHeads ?? numberOf(file, 'attention.head_count_kv', heads);
  const headDim = numberOf(file, 'attention.key_length', width / heads);
  const embedding = file.tensors.get('token_embd.weight');
  if (!embedding) {
    throw new ModelFileError('missing_tensor', `${file.name}: tensor 'token_embd.weight' is missing`);
  }
  const shape: Shape = {
    layers: numberOf(file, 'block_count'),
    width,
    heads,
    kvHeads,
    headDim,
    feedForward: numberOf(file, 'feed_forward_length'),
    vocabulary: embedding.shape[0] ?? 0,
    eps: eps ?? numberOf(file, 'attention.layer_norm_rms_epsilon'),
    embeddingScale,
    ropes,
    sandwich,
    trainedContext: numberOf(file, 'context_length'),
    ...(end ? { embedding: end } : {}),
    ...(experts ? { experts } : {}),
  };
  checkShape(file, shape);
  return shape;
}

/** What the kernels take for granted. @throws ModelFileError `bad_metadata` with all problems at once */
export function checkShape(file: ModelFile, shape: Shape): void {
  const problems: string[] = [];
  const whole = (name: string, value: number) => {
    if (!Number.isInteger(value) || value < 1)
      problems.push(`${name} must be a whole number >= 1, got ${value}`);
  };
  whole('block_count', shape.layers);
  // Before a graph of so many layers is written down: each has tensors of its own.
  if (shape.layers > file.tensors.size) {
    problems.push(`block_count ${shape.layers} is more than the ${file.tensors.size} tensors of the file`);
  } else if (shape.layers > mostLayers) {
    problems.push(`block_count ${shape.layers} is more than any model has (${mostLayers})`);
  }
  whole('embedding_length', shape.width);
  whole('attention.head_count', shape.heads);
  whole('attention.head_count_kv', shape.kvHeads);
  whole('head dimension', shape.headDim);
  whole('feed_forward_length', shape.feedForward);
  whole('context_length', shape.trainedContext);
  whole('vocabulary', shape.vocabulary);
  if (shape.heads % shape.kvHeads !== 0) {
    problems.push(`head_count ${shape.heads} must be a multiple of head_count_kv ${shape.kvHeads}`);
  }
  if (shape.width % 32 !== 0) problems.push(`embedding_length ${shape.width} must be a multiple of 32`);
  if ((shape.heads * shape.headDim) % 32 !== 0) {
    problems.push(`heads * head dimension ${shape.heads * shape.headDim} must be a multiple of 32`);
  }
  if (shape.headDim % 8 !== 0) problems.push(`head dimension ${shape.headDim} must be a multiple of 8`);
  const above0 = (name: string, value: number) => {
    const held = Math.fround(value);
    if (!(value > 0)) problems.push(`${name} must be above 0, got ${value}`);
    else if (held === 0 || held === Number.POSITIVE_INFINITY)
      problems.push(`${name} must be a number that a float of 32 bits holds, got ${value}`);
  };
  above0('epsilon of norms', shape.eps);
  for (const { rotary, theta, scale, magnitude, factors, long } of shape.ropes) {
    above0('rope.freq_base', theta);
    above0('rope.scaling.factor', scale);
    above0('rope.scaling.attn_factor', magnitude);
    if (long) above0('rope.scaling.original_context_length', long.beyond);
    if (factors?.some((one) => !(one > 0))) {
      problems.push('the numbers of rope.scaling make divisors that are not above 0');
    }
    if (rotary > 0 && rotary % 4 === 0 && rotary <= shape.headDim) continue;
    problems.push(`rope.dimension_count ${rotary} must be a multiple of 4, at most ${shape.headDim}`);
  }
  if (problems.length > 0)
    throw new ModelFileError('bad_metadata', `${file.name}: ${[...new Set(problems)].join('; ')}`);
}

/** Checks that the weights a graph names are there with the shapes it means; all problems at once. */
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

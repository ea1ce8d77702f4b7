import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { Rope, Shape } from '../graph.ts';

/** Reads `<architecture>.<key>` as a number; without a fallback a missing key is an error. */
export function numberOf(file: ModelFile, key: string, fallback?: number): number {
  const architecture = String(file.metadata.get('general.architecture'));
  const full = `${architecture}.${key}`;
  const value = file.metadata.get(full);
  if (typeof value === 'number' || typeof value === 'bigint') return Number(value);
  if (value === undefined && fallback !== undefined) return fallback;
  throw new ModelFileError(
    'bad_metadata',
    `${file.name}: metadata '${full}' must be a number, got ${value === undefined ? 'nothing' : typeof value}`,
  );
}

/** The shape as the llama family writes it down. */
export function shapeOf(file: ModelFile, rope: { style: Rope['style'] }): Shape {
  const width = numberOf(file, 'embedding_length');
  const heads = numberOf(file, 'attention.head_count');
  const kvHeads = numberOf(file, 'attention.head_count_kv', heads);
  const headDim = numberOf(file, 'attention.key_length', width / heads);
  const embedding = file.tensors.get('token_embd.weight');
  if (!embedding) {
    throw new ModelFileError('missing_tensor', `${file.name}: tensor 'token_embd.weight' is missing`);
  }
  const rotary = numberOf(file, 'rope.dimension_count', headDim);
  const shape: Shape = {
    layers: numberOf(file, 'block_count'),
    width,
    heads,
    kvHeads,
    headDim,
    feedForward: numberOf(file, 'feed_forward_length'),
    vocabulary: embedding.shape[0] ?? 0,
    eps: numberOf(file, 'attention.layer_norm_rms_epsilon'),
    embeddingScale: 1,
    rope: {
      theta: numberOf(file, 'rope.freq_base', 10000),
      rotary,
      style: rope.style,
      scale: ropeScale(file),
    },
    trainedContext: numberOf(file, 'context_length'),
  };
  checkShape(file, shape);
  return shape;
}

function ropeScale(file: ModelFile): number {
  const type = file.metadata.get(`${String(file.metadata.get('general.architecture'))}.rope.scaling.type`);
  if (type === undefined || type === 'none') return 1;
  if (type === 'linear') return numberOf(file, 'rope.scaling.factor', 1);
  throw new ModelFileError(
    'unsupported_rope',
    `${file.name}: RoPE scaling '${String(type)}' is not supported (supported: none, linear, Llama 3 factors)`,
  );
}

/** What the kernels take for granted. */
function checkShape(file: ModelFile, shape: Shape): void {
  const problems: string[] = [];
  const whole = (name: string, value: number) => {
    if (!Number.isInteger(value) || value < 1)
      problems.push(`${name} must be a whole number >= 1, got ${value}`);
  };
  whole('block_count', shape.layers);
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
  if (shape.rope.rotary % 4 !== 0 || shape.rope.rotary > shape.headDim) {
    problems.push(
      `rope.dimension_count ${shape.rope.rotary} must be a multiple of 4, at most ${shape.headDim}`,
    );
  }
  if (problems.length > 0) throw new ModelFileError('bad_metadata', `${file.name}: ${problems.join('; ')}`);
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

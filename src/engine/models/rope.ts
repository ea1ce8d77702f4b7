/** Reads rotary embeddings from metadata and tensors of a file. */
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { Rope } from '../graph.ts';
import { elementsOf, readVector } from '../weights.ts';
import { fieldOf, numberOf, optionalNumber } from './metadata.ts';

/** Upper bound of a head's width, checked before the value is compared with the tensors. */
const mostRotary = 1 << 16;
const scalings = 'none, linear, yarn, longrope, and factors of Llama 3 in rope_freqs.weight';

/**
 * The rotary embedding of a model whose layers share one.
 * @param wholeYarn default of `yarn_truncate`: round the ends of YaRN's ramp to whole pairs
 */
export async function ropeOf(
  file: ModelFile,
  style: Rope['style'],
  { wholeYarn = true } = {},
): Promise<Rope> {
  const headDim = numberOf(
    file,
    'attention.key_length',
    numberOf(file, 'embedding_length') / numberOf(file, 'attention.head_count'),
  );
  const rotary = numberOf(file, 'rope.dimension_count', headDim);
  if (!(rotary > 0 && rotary <= mostRotary)) {
    throw new ModelFileError(
      'bad_metadata',
      `${file.name}: rope.dimension_count must be a number from 1 to ${mostRotary}, got ${rotary}; see also head_count and key_length`,
    );
  }
  const theta = numberOf(file, 'rope.freq_base', 10000);
  const plain: Rope = { theta, rotary, style, scale: 1, magnitude: 1 };
  if (file.tensors.has('rope_factors_short.weight')) return await longRope(file, plain);
  if (file.tensors.has('rope_freqs.weight')) {
    return {
      ...plain,
      scale: linearFactor(file),
      factors: await factorsOf(file, 'rope_freqs.weight', rotary),
    };
  }
  // Older files without a type use linear scaling when they have a factor.
  const type = fieldOf(file, 'rope.scaling.type') ?? 'linear';
  if (type === 'none') return plain;
  if (type === 'linear') return { ...plain, scale: linearFactor(file) };
  if (type === 'yarn') return yarn(file, plain, wholeYarn);
  const missing =
    type === 'longrope'
      ? `without the tensors 'rope_factors_short.weight' and 'rope_factors_long.weight'`
      : '';
  throw new ModelFileError(
    'unsupported_rope',
    `${file.name}: RoPE scaling '${String(type)}' ${missing || 'is not supported'} (supported: ${scalings})`,
  );
}

const linearFactor = (file: ModelFile): number =>
  optionalNumber(file, 'rope.scaling.factor') ?? optionalNumber(file, 'rope.scale_linear') ?? 1;

async function factorsOf(file: ModelFile, name: string, rotary: number): Promise<Float32Array> {
  const length = elementsOf(file, name);
  // A tensor of the wrong length is not read.
  const factors = length === rotary / 2 ? await readVector(file, name) : undefined;
  if (factors?.every((one) => one > 0)) return factors;
  throw new ModelFileError(
    'bad_tensors',
    `${file.name}: tensor '${name}' must hold ${rotary / 2} numbers above 0 (half of rope.dimension_count), got ${length}`,
  );
}

/** LongRoPE: one set of divisors for contexts up to the original length, another for longer ones. */
async function longRope(file: ModelFile, plain: Rope): Promise<Rope> {
  const beyond = numberOf(file, 'rope.scaling.original_context_length');
  const stretch = numberOf(file, 'context_length') / beyond;
  const usual = stretch > 1 ? Math.sqrt(1 + Math.log(stretch) / Math.log(beyond)) : 1;
  return {
    ...plain,
    factors: await factorsOf(file, 'rope_factors_short.weight', plain.rotary),
    long: { beyond, factors: await factorsOf(file, 'rope_factors_long.weight', plain.rotary) },
    magnitude: numberOf(file, 'rope.scaling.attn_factor', usual),
  };
}

/**
 * YaRN: pairs that rotate fast within the original context keep their frequency, slow ones are scaled by `factor`,
 * and those between are interpolated. Expressed as divisors.
 */
function yarn(file: ModelFile, plain: Rope, usual: boolean): Rope {
  const { theta, rotary } = plain;
  const factor = numberOf(file, 'rope.scaling.factor');
  const original = numberOf(file, 'rope.scaling.original_context_length', numberOf(file, 'context_length'));
  /** The pair that makes this many turns within the original context. */
  const pairTurning = (turns: number) =>
    (rotary * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const whole = (fieldOf(file, 'rope.scaling.yarn_truncate') ?? usual) !== false;
  const fast = pairTurning(numberOf(file, 'rope.scaling.yarn_beta_fast', 32));
  const slow = pairTurning(numberOf(file, 'rope.scaling.yarn_beta_slow', 1));
  const low = Math.max(0, whole ? Math.floor(fast) : fast);
  const high = Math.min(rotary - 1, whole ? Math.ceil(slow) : slow);
  const extrapolated = numberOf(file, 'rope.scaling.yarn_ext_factor', 1);
  const factors = Float64Array.from({ length: rotary / 2 }, (_, pair) => {
    const ramp = Math.min(1, Math.max(0, (pair - low) / Math.max(0.001, high - low)));
    const kept = (1 - ramp) * extrapolated;
    return 1 / (kept + (1 - kept) / factor);
  });
  const magnitude =
    numberOf(file, 'rope.scaling.yarn_attn_factor', 1 + 0.1 * Math.log(Math.max(1, factor))) *
    numberOf(file, 'rope.scaling.attn_factor', 1);
  return { ...plain, factors, magnitude };
}

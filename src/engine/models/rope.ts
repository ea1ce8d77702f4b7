/** Reads rotary embeddings from metadata and tensors of a file. */
import { ModelFileError, type ModelFile } from '../formats/model-file.ts';
import type { Rope } from '../graph/graph.ts';
import { elementsOf, readVector } from '../loading/weights.ts';
import { metadataValue, readNumber, readOptionalNumber } from './metadata.ts';

/** Upper bound of a head's width, checked before the value is compared with the tensors. */
const maxRotary = 1 << 16;
const scalings = 'none, linear, yarn, longrope, and factors of Llama 3 in rope_freqs.weight';

/**
 * The rotary embedding of a model whose layers share one.
 * @param wholeYarn default of `yarn_truncate`: round the ends of YaRN's ramp to whole pairs
 */
export async function readRope(
  file: ModelFile,
  style: Rope['style'],
  { wholeYarn = true } = {},
): Promise<Rope> {
  const headDim = readNumber(
    file,
    'attention.key_length',
    readNumber(file, 'embedding_length') / readNumber(file, 'attention.head_count'),
  );
  const rotary = readNumber(file, 'rope.dimension_count', headDim);
  if (!(rotary > 0 && rotary <= maxRotary)) {
    throw new ModelFileError(
      'bad_metadata',
      `${file.name}: rope.dimension_count must be a number from 1 to ${maxRotary}, got ${rotary}; see also head_count and key_length`,
    );
  }
  const theta = readNumber(file, 'rope.freq_base', 10000);
  const baseRope: Rope = { theta, rotary, style, scale: 1, magnitude: 1 };
  if (file.tensors.has('rope_factors_short.weight')) return await readLongRope(file, baseRope);
  if (file.tensors.has('rope_freqs.weight')) {
    return {
      ...baseRope,
      scale: linearFactor(file),
      factors: await readFactors(file, 'rope_freqs.weight', rotary),
    };
  }
  // Older files without a type use linear scaling when they have a factor.
  const type = metadataValue(file, 'rope.scaling.type') ?? 'linear';
  if (type === 'none') return baseRope;
  if (type === 'linear') return { ...baseRope, scale: linearFactor(file) };
  if (type === 'yarn') return readYarn(file, baseRope, wholeYarn);
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
  readOptionalNumber(file, 'rope.scaling.factor') ?? readOptionalNumber(file, 'rope.scale_linear') ?? 1;

async function readFactors(file: ModelFile, name: string, rotary: number): Promise<Float32Array> {
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
async function readLongRope(file: ModelFile, baseRope: Rope): Promise<Rope> {
  const beyond = readNumber(file, 'rope.scaling.original_context_length');
  const stretch = readNumber(file, 'context_length') / beyond;
  const defaultMagnitude = stretch > 1 ? Math.sqrt(1 + Math.log(stretch) / Math.log(beyond)) : 1;
  return {
    ...baseRope,
    factors: await readFactors(file, 'rope_factors_short.weight', baseRope.rotary),
    long: { beyond, factors: await readFactors(file, 'rope_factors_long.weight', baseRope.rotary) },
    magnitude: readNumber(file, 'rope.scaling.attn_factor', defaultMagnitude),
  };
}

/**
 * YaRN: pairs that rotate fast within the original context keep their frequency, slow ones are scaled by `factor`,
 * and those between are interpolated. Expressed as divisors.
 */
function readYarn(file: ModelFile, baseRope: Rope, wholeByDefault: boolean): Rope {
  const { theta, rotary } = baseRope;
  const factor = readNumber(file, 'rope.scaling.factor');
  const original = readNumber(
    file,
    'rope.scaling.original_context_length',
    readNumber(file, 'context_length'),
  );
  /** The pair that makes this many turns within the original context. */
  const pairTurning = (turns: number) =>
    (rotary * Math.log(original / (turns * 2 * Math.PI))) / (2 * Math.log(theta));
  const whole = (metadataValue(file, 'rope.scaling.yarn_truncate') ?? wholeByDefault) !== false;
  const fast = pairTurning(readNumber(file, 'rope.scaling.yarn_beta_fast', 32));
  const slow = pairTurning(readNumber(file, 'rope.scaling.yarn_beta_slow', 1));
  const low = Math.max(0, whole ? Math.floor(fast) : fast);
  const high = Math.min(rotary - 1, whole ? Math.ceil(slow) : slow);
  const extrapolated = readNumber(file, 'rope.scaling.yarn_ext_factor', 1);
  const factors = Float64Array.from({ length: rotary / 2 }, (_, pair) => {
    const ramp = Math.min(1, Math.max(0, (pair - low) / Math.max(0.001, high - low)));
    const extrapolatedPart = (1 - ramp) * extrapolated;
    return 1 / (extrapolatedPart + (1 - extrapolatedPart) / factor);
  });
  const magnitude =
    readNumber(file, 'rope.scaling.yarn_attn_factor', 1 + 0.1 * Math.log(Math.max(1, factor))) *
    readNumber(file, 'rope.scaling.attn_factor', 1);
  return { ...baseRope, factors, magnitude };
}

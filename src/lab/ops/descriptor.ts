import { contracts, type Contract, type Exactness } from '../../../kernels/contracts.ts';
import { formatNames } from '../../../kernels/formats.ts';
import { stubTargets } from '../stubs.ts';
import type { OpDescriptor, ParityMode, Tolerance } from '../types.ts';
import { exactnessOf } from './exactness.ts';

/**
 * Tolerances by exactness. Errors of correct kernels are spread over the elements like noise: at the NMSE limit, the
 * typical error is sqrt(NMSE) times the RMS. `max_abs` rejects single wrong elements: it is about five times
 * sqrt(NMSE), for outputs whose largest element is close to the RMS; with 8-bit activations half of that, because the
 * largest element is then two to four times the RMS. In `matched_ratio`, near means four times sqrt(NMSE): by chance,
 * one element in 16,000 has a larger error.
 */
export const tolerances: Readonly<Record<Exactness, Tolerance>> = {
  f32: { nmse: 1e-7, max_abs: 1.5e-3, matched_ratio: 0.999 },
  // f16 has 11 significant bits: rounding once gives an NMSE of 4e-8, and neighboring values differ by a thousandth.
  // Strict mode multiplies these limits by 0.1.
  f16: { nmse: 1e-6, max_abs: 1e-2, matched_ratio: 0.999 },
  // Rounding activations to 8 bits gives an NMSE of 3e-5 to 1e-4, depending on the value range in a block.
  quantised: { nmse: 5e-4, max_abs: 5e-2, matched_ratio: 0.995 },
  // Token ids.
  exact: { nmse: 0, max_abs: 0, matched_ratio: 1 },
};

/** What strict mode multiplies tolerances by. */
export const strictScale = 0.1;

/** Tolerance of an op under a parity mode. */
export function resolveTolerance(
  contract: Contract,
  format: string | undefined,
  { mode, tolerance_scale: scale = 1 }: ParityMode,
): Tolerance {
  const { nmse, max_abs, matched_ratio } = tolerances[exactnessOf(contract, format)];
  const by = scale * (mode === 'strict' ? strictScale : 1);
  return { nmse: nmse * by, max_abs: max_abs * by, matched_ratio };
}

const accesses = { in: 'read', out: 'read_write', inout: 'read_write', uniform: 'uniform' } as const;

/** Entry of an op in the response of GET /lab/v1/ops, for an adapter with these features. */
export function describeOp(contract: Contract, features: readonly string[]): OpDescriptor {
  const { op, summary, tokens, dims, bindings, dispatch, exactness, flops, bytes } = contract;
  const targets = stubTargets(op, features);
  const stored = bindings.flatMap(({ name, role, dtype, shape, summary: of }) =>
    role === 'uniform' ? [] : [{ name, role, dtype, shape, summary: of }],
  );
  const named = (...roles: string[]) =>
    stored
      .filter(({ role }) => roles.includes(role))
      .map(({ name, dtype, shape, summary: of }) => ({
        name,
        ...(dtype === undefined ? {} : { dtype }),
        shape,
        summary: of,
      }));
  const params = bindings.find(({ name }) => name === 'params')?.members ?? [];
  const readsWeights = bindings.some(({ dtype }) => dtype === 'weights');
  return {
    op,
    summary,
    tokens,
    covers: contract.covers,
    inputs: named('in', 'inout'),
    outputs: named('out', 'inout'),
    params: params.map(([name, type]) => ({ name, type, ...limitOf(contract, name) })),
    dims: dims.map(({ name, summary: of, multipleOf }) => ({
      name,
      summary: of,
      ...(multipleOf === undefined ? {} : { multiple_of: multipleOf }),
    })),
    bindings: bindings.map(({ name, role, dtype, shape, members }, binding) => ({
      group: 0,
      binding,
      name,
      access: accesses[role],
      ...(dtype === undefined ? {} : { dtype, shape }),
      ...(members === undefined
        ? {}
        : { members: members.map(([member, type]) => ({ name: member, type })) }),
    })),
    dispatch,
    exactness,
    tolerance: tolerances[exactness],
    ...(readsWeights && exactness === 'quantised'
      ? {
          tolerance_by_dtype: Object.fromEntries(
            formatNames.map((format) => [format, tolerances[exactnessOf(contract, format)]]),
          ),
        }
      : {}),
    flops,
    bytes,
    fusable_into: spansOf(contract),
    dtypes: readsWeights ? formatNames : [],
    features: ['shader-f16', 'subgroups'].filter((feature) => features.includes(feature)),
    oracle: oracleOf(contract),
    targets,
  };
}

/** Matrix products may read their activations as vec4. */
const limitOf = ({ covers }: Contract, name: string) =>
  name === 'x_stride' && covers.includes('matmul') ? { multiple_of: 4 } : {};

/** Larger ops that contain the steps of this op, in the same order. */
function spansOf({ op, covers, tokens }: Contract): string[] {
  // The norm of heads runs in place, between a product and a rotation, and is never fused into a product.
  if (op === 'head_norm') return [];
  return [...contracts.values()]
    .filter((other) => other.covers.length > covers.length && (tokens === 'any' || other.tokens === 'one'))
    .filter((other) =>
      other.covers.some((_, start) => covers.every((part, index) => other.covers[start + index] === part)),
    )
    .map((other) => other.op);
}

const definitions: Readonly<Record<string, string>> = {
  sample:
    'the same sampling: temperature, top-k, top-p, min-p, then the token with the largest logit / temperature + Gumbel noise of (seed, position, token); integers, compared exactly',
  rope: '(a, b) -> (a cos - b sin, a sin + b cos) for every pair',
  kv_write: 'k and v rounded to the nearest f16, the rest of the cache unchanged',
  rope_kv_write: 'rope, then k and v rounded to the nearest f16, the rest of the cache unchanged',
};

/** Description of the oracle, for the ops response. */
export function oracleOf({ op, summary }: Contract): string {
  const definition = definitions[op];
  if (op === 'sample' && definition) return definition;
  return `${definition ?? summary}; in float64 on the CPU`;
}

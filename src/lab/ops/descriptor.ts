import { contracts, type Contract, type Exactness } from '../../../kernels/contracts.ts';
import { formatNames } from '../../../kernels/formats.ts';
import { stubTargets } from '../stubs.ts';
import type { OpDescriptor, ParityMode, Tolerance } from '../types.ts';

/**
 * Of honest kernels errors are spread over the elements like noise: at the limit of the NMSE its root is their part of
 * the RMS. `max_abs` fails what is wrong in one place only: about five times that root where the greatest element is no
 * more than the RMS, and with 8 bits half of that, because there it is two to four times the RMS. Nearness in
 * `matched_ratio` is four times the root: one element in sixteen thousand is farther off by chance.
 */
export const tolerances: Readonly<Record<Exactness, Tolerance>> = {
  f32: { nmse: 1e-7, max_abs: 1.5e-3, matched_ratio: 0.999 },
  // f16 keeps 11 bits: rounding once gives an NMSE of 4e-8. A result between two halves may become either, which is a
  // thousandth: strict mode takes a tenth of these.
  f16: { nmse: 1e-6, max_abs: 1e-2, matched_ratio: 0.999 },
  // Activations of 8 bits give an NMSE of 3e-5 to 1e-4, by how much blocks differ within.
  quantised: { nmse: 5e-4, max_abs: 5e-2, matched_ratio: 0.995 },
  // Token ids: one is right or wrong.
  exact: { nmse: 0, max_abs: 0, matched_ratio: 1 },
};

/** How exact an op's results must be with weights of a format: what they do not round, its kernels may not round. */
export function exactnessOf({ exactness }: Contract, format?: string): Exactness {
  if (exactness !== 'quantised') return exactness;
  if (format === 'f32') return 'f32';
  return format === 'f16' || format === 'bf16' ? 'f16' : 'quantised';
}

const strictScale = 0.1;

/** What is tolerated under a parity mode. */
export function toleranceUnder(
  contract: Contract,
  format: string | undefined,
  { mode, tolerance_scale: scale = 1 }: ParityMode,
): Tolerance {
  const { nmse, max_abs, matched_ratio } = tolerances[exactnessOf(contract, format)];
  const by = scale * (mode === 'strict' ? strictScale : 1);
  return { nmse: nmse * by, max_abs: max_abs * by, matched_ratio };
}

const accesses = { in: 'read', out: 'read_write', inout: 'read_write', uniform: 'uniform' } as const;

/** The `/lab/v1/ops` entry of an op, for an adapter with these features. */
export function describeOp(contract: Contract, features: readonly string[]): OpDescriptor {
  const { op, summary, tokens, dims, bindings, dispatch, exactness, flops, bytes } = contract;
  const targets = stubTargets(op, features);
  const stored = bindings.flatMap(({ name, role, dtype, shape, summary: of }) =>
    role === 'uniform' ? [] : [{ name, role, dtype, shape, summary: of }],
  );
  const named = (...roles: string[]) =>
    stored
      .filter(({ role }) => roles.includes(role))
      .map(({ name, dtype, shape, summary: of }) => ({ name, dtype, shape, summary: of }));
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
    dispatch: [dispatch.x, dispatch.y ?? '1', dispatch.z ?? '1'].join(', '),
    dispatch_rule: dispatch,
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

/** Products read their activations as vec4 where they like. */
const limitOf = ({ covers }: Contract, name: string) =>
  name === 'x_stride' && covers.includes('matmul') ? { multiple_of: 4 } : {};

/** Larger ops that do all this one does, in the same order, and more. */
function spansOf({ op, covers, tokens }: Contract): string[] {
  // The norm of heads is in place, between a product and a rotation: no product takes it over.
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
    'the same draw: temperature, top-k, top-p, min-p, then the greatest logit / temperature + Gumbel noise of (seed, position, token); integers, compared exactly',
  rope: '(a, b) -> (a cos - b sin, a sin + b cos) of every pair',
  kv_write: 'k and v rounded to the nearest f16, everything else of the cache as it was',
  rope_kv_write: 'rope, then k and v rounded to the nearest f16, everything else of the cache as it was',
};

/** What results are compared with, in words. */
export function oracleOf({ op, summary }: Contract): string {
  const definition = definitions[op];
  if (op === 'sample' && definition) return definition;
  return `${definition ?? summary}; in float64 on the CPU`;
}

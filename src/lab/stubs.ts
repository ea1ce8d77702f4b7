import type { WgslSources } from '../../kernels/assemble.ts';
import { type Contract, type ContractBinding, contracts } from '../../kernels/contracts.ts';
import { formatNames } from '../../kernels/formats.ts';
import { exactnessOf } from './ops/exactness.ts';
import { LabError, type LabStub } from './types.ts';

/** Starting point for a kernel author: it compiles and passes the gate unchanged. */
export interface Stub {
  readonly source: string;
  /** Dispatch rule to register it with. */
  readonly dispatch: { readonly x: string; readonly y?: string; readonly z?: string };
  /** Overrides that the source declares, with their defaults. */
  readonly overrides: Readonly<Record<string, number>>;
  readonly requires: readonly ('shader-f16' | 'subgroups')[];
}

type Target = LabStub['target'];

/** Adapter feature that each target needs. */
const featureByTarget = {
  plain: undefined,
  f16: 'shader-f16',
  subgroups: 'subgroups',
} as const satisfies Record<Target, string | undefined>;
const targets = Object.keys(featureByTarget) as Target[];

const isMatrixProduct = ({ covers }: Contract): boolean => covers.includes('matmul');
export const readsWeights = ({ bindings }: Contract): boolean =>
  bindings.some(({ dtype }) => dtype === 'weights');

/** Targets with a source of their own, for ops other than products. The other ops neither reduce nor store f16. */
const targetsByOp: Readonly<Record<string, readonly Target[]>> = {
  rms_norm: ['plain', 'subgroups'],
  norm_add: ['plain', 'subgroups'],
  head_norm: ['plain', 'subgroups'],
  kv_write: ['plain', 'f16'],
  rope_kv_write: ['plain', 'f16'],
  attention: targets,
  attention_decode: targets,
  sample: ['plain', 'subgroups'],
};

/** @throws LabError `unknown_op`, also for an op that only built-in kernels can compute */
export function contractOf(op: string): Contract {
  const contract = contracts.get(op);
  if (contract) return contract;
  throw new LabError('unknown_op', `op: expected one of ${[...contracts.keys()].join(', ')}, got '${op}'.`);
}

/**
 * Targets that an op has stubs for: `plain`, and `f16` and `subgroups` if the adapter supports them.
 * @param features features of the adapter
 */
export function stubTargets(op: string, features: readonly string[]): Target[] {
  contractOf(op);
  return targets.filter((target) => {
    const feature = featureByTarget[target];
    return feature === undefined || features.includes(feature);
  });
}

/**
 * Renders the stub of an op as plain WGSL, without preprocessor directives and for one weight format.
 * @param target one of `stubTargets`; adapter features are not checked here
 * @param format weight format, for ops that read weights
 */
export function renderStub(wgsl: WgslSources, op: string, target: string, format = 'q8_0'): Stub {
  const contract = contractOf(op);
  if (!isTarget(target)) {
    throw new LabError('invalid_target', `target: expected one of ${targets.join(', ')}, got '${target}'.`);
  }
  if (readsWeights(contract) && !formatNames.some((name) => name === format)) {
    throw new LabError(
      'invalid_target',
      `format: expected one of ${formatNames.join(', ')}, got '${format}'.`,
    );
  }
  // Two products of weights that are not rounded to blocks, in f16, do not have the precision that the op requires.
  const isTooRough =
    target === 'f16' &&
    contract.covers.includes('gated_activation') &&
    exactnessOf(contract, format) !== 'quantised';
  const hasTarget = isMatrixProduct(contract) ? !isTooRough : (targetsByOp[op]?.includes(target) ?? false);
  const effectiveTarget = hasTarget ? target : 'plain';
  const body = preprocess(wgsl, stubSource(contract), preprocessorFlags(contract, effectiveTarget, format));
  const overrides = Object.fromEntries(
    [...body.matchAll(/^override (\w+): u32 = (\d+);/gm)].map(([, name, value]) => [
      name as string,
      Number(value),
    ]),
  );
  const feature = featureByTarget[target];
  const featureNote = effectiveTarget === target ? '' : unusedFeatureNote(target);
  return {
    source: `${headerComment(contract, format, overrides)}\n${featureNote}${body.trim()}\n`,
    dispatch: contract.dispatch,
    overrides,
    requires: feature === undefined ? [] : [feature],
  };
}

const isTarget = (name: string): name is Target => targets.some((target) => target === name);

/** Note for an op whose stub does not use the feature of the target. */
const unusedFeatureNote = (target: Target): string =>
  `// This stub does not use the feature: it has nothing to gain from it here, or too much precision to lose. It is enabled so that you can use it.\n` +
  `enable ${target};\n\n`;

/** Path below `wgsl/`. Similar ops share a file. */
export function stubSource(contract: Contract): string {
  if (isMatrixProduct(contract)) return 'lab/product.wgsl';
  return `lab/${contract.op === 'attention_decode' ? 'attention' : contract.op}.wgsl`;
}

function preprocessorFlags(
  { covers }: Contract,
  target: Target,
  format: string,
): ReadonlyMap<string, boolean> {
  return new Map([
    ['F16', target === 'f16'],
    ['SUBGROUPS', target === 'subgroups'],
    ['NORM', covers[0] === 'rms_norm'],
    ['GATED', covers.at(-1) === 'gated_activation'],
    ['ADD', covers.at(-1) === 'add'],
    // The flag F16 means the target, so the weight format f16 has another flag.
    ...formatNames.map(
      (name) => [name === 'f16' ? 'WEIGHTS_F16' : name.toUpperCase(), name === format] as const,
    ),
    // In these formats, a weight without its scale fits in f16.
    ['HALF_WEIGHTS', target === 'f16' && ['q8_0', 'q4_0', 'f16'].includes(format)],
  ]);
}

/** Preprocesses a WGSL source: `//#if`, `//#else`, `//#endif` and `//#include`. */
function preprocess(wgsl: WgslSources, path: string, flags: ReadonlyMap<string, boolean>): string {
  const text = wgsl.get(path);
  if (text === undefined) throw new Error(`no WGSL source '${path}'`);
  // For each open `//#if`: whether the current branch is active.
  const branches: boolean[] = [];
  const lines: string[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const directive = /^\s*\/\/#(\w+)\s*"?([\w/.]*)"?$/.exec(line);
    const active = branches.every(Boolean);
    if (!directive) {
      if (active) lines.push(line);
      continue;
    }
    const [, directiveName, argument = ''] = directive;
    const flag = flags.get(argument);
    if (directiveName === 'if' && flag !== undefined) branches.push(flag);
    else if (directiveName === 'else' && branches.length > 0) branches.push(!branches.pop());
    else if (directiveName === 'endif' && branches.length > 0) branches.pop();
    else if (directiveName === 'include') {
      if (active) lines.push(preprocess(wgsl, argument, flags).trim());
    } else throw new Error(`${path}:${index + 1}: unknown directive '${line.trim()}'`);
  }
  if (branches.length > 0) throw new Error(`${path}: //#if without //#endif`);
  return lines.join('\n').replace(/\n{3,}/g, '\n\n');
}

const accessByRole = { in: 'read', out: 'read_write', inout: 'read_write', uniform: 'uniform' } as const;

/** Header comment: the op, its bindings, and how to register the kernel. */
function headerComment(
  contract: Contract,
  format: string,
  overrides: Readonly<Record<string, number>>,
): string {
  const { op, summary, bindings, dispatch } = contract;
  const names = Object.entries(overrides).map(([name, value]) => `${name} = ${value}`);
  const dispatchRule = (['x', 'y', 'z'] as const).flatMap((axis) =>
    dispatch[axis] === undefined ? [] : [`${axis} = ${dispatch[axis]}`],
  );
  return [
    `${op}${readsWeights(contract) ? `, weights in ${format}` : ''}`,
    `  ${summary}`,
    '',
    'Bindings of group 0, row-major, one row for each token:',
    ...bindings.map((binding, index) => `  ${index} ${describeBinding(binding)}`),
    '',
    `Register with the dispatch rule ${dispatchRule.join(', ')}`,
    `and the overrides ${names.join(', ')}, or other values. List values as tunables to find the fastest by measurement.`,
    ...(contract.tokens === 'one' ? ['The kernel runs only in steps of one token.'] : []),
    '',
  ]
    .map((line) => `// ${line}`.trimEnd())
    .join('\n');
}

function describeBinding({ name, role, dtype, shape, summary }: ContractBinding): string {
  const type = dtype === undefined ? '' : `, ${dtype} [${shape.join(', ')}]`;
  return `${name}: ${accessByRole[role]}${type}; ${summary}`;
}

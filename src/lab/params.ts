/** What a kernel is told by `params`: its struct may end before members that came to the op later. */
import { type Contract, unknownParams } from '../../kernels/contracts.ts';
import type { ParityCase } from './types.ts';
import type { Reflection } from './wgsl/reflect.ts';

/** Members of `params` that a module declares. */
export function declaredParams({ bindings }: Contract, { variables }: Reflection): number {
  const number = bindings.findIndex(({ name }) => name === 'params');
  const variable = variables.find(({ binding, isResource }) => isResource && binding === number);
  return variable?.type.kind === 'struct' ? variable.type.struct.members.length : 0;
}

/** The cases that a kernel can be right on, and members that it would need for others of the resident model. */
export function tellable(
  contract: Contract,
  declared: number,
  cases: readonly ParityCase[],
): { told: readonly ParityCase[]; missing: readonly string[] } {
  const missing = new Set<string>();
  const told = cases.filter(({ name, params }) => {
    const unknown = unknownParams(contract, declared, params);
    if (isOfModel(name)) for (const one of unknown) missing.add(one);
    return unknown.length === 0;
  });
  return { told, missing: [...missing] };
}

const isOfModel = (name: string): boolean => /^(live|captured) /.test(name);

/** Why a kernel cannot run a dispatch; undefined when it can. */
export function paramsFault(
  { contract, params: declared }: { contract: Contract; params: number },
  { params }: { params: Readonly<Record<string, number>> },
): string | undefined {
  const unknown = unknownParams(contract, declared, params);
  if (unknown.length === 0) return undefined;
  const values = unknown.map((name) => `params.${name} is ${params[name]}`).join(' and ');
  return `${values} there, and its struct of params ends before: declare all members of ${contract.op} and heed them`;
}

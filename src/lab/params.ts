/** Compatibility of a kernel's `params` struct with the op: it may lack members that were added to the op later. */
import { type Contract, undeclaredParams } from '../../kernels/contracts.ts';
import type { ParityCase } from './types.ts';
import type { Reflection } from './wgsl/reflect.ts';

/** Number of `params` members that a module declares. */
export function declaredParams({ bindings }: Contract, { variables }: Reflection): number {
  const number = bindings.findIndex(({ name }) => name === 'params');
  const variable = variables.find(({ binding, isResource }) => isResource && binding === number);
  return variable?.type.kind === 'struct' ? variable.type.struct.members.length : 0;
}

/**
 * Selects the cases that need no more `params` members than the kernel declares.
 * @returns also the missing members that cases of the resident model need
 */
export function selectSupportedCases(
  contract: Contract,
  declared: number,
  cases: readonly ParityCase[],
): { supported: readonly ParityCase[]; missing: readonly string[] } {
  const missing = new Set<string>();
  const supported = cases.filter(({ name, params }) => {
    const unknown = undeclaredParams(contract, declared, params);
    if (isModelCase(name)) for (const member of unknown) missing.add(member);
    return unknown.length === 0;
  });
  return { supported, missing: [...missing] };
}

const isModelCase = (name: string): boolean => /^(live|captured) /.test(name);

/** Why the `params` struct of a kernel does not fit a dispatch; undefined when it does. */
export function findParamsMismatch(
  { contract, params: declared }: { contract: Contract; params: number },
  { params }: { params: Readonly<Record<string, number>> },
): string | undefined {
  const unknown = undeclaredParams(contract, declared, params);
  if (unknown.length === 0) return undefined;
  const values = unknown.map((name) => `params.${name} is ${params[name]}`).join(' and ');
  return `${values} there, but the kernel's params struct ends before: declare all params members of ${contract.op} and use them`;
}

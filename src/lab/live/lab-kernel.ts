/** Converts registrations and stubs to kernels that the engine can bind. */
import type { WgslSources } from '../../../kernels/assemble.ts';
import type { LabKernel } from '../../engine/index.ts';
import { kernelDigest } from '../digest.ts';
import { compileExpression } from '../expression.ts';
import { declaredParams } from '../params.ts';
import { contractOf, renderStub } from '../stubs.ts';
import type { KernelRegistration } from '../types.ts';
import { overrideValues, reflect } from '../wgsl/reflect.ts';

/**
 * Compiles the dispatch expressions of a kernel. The returned function computes the workgroup counts from the dims of
 * a step. It is called for every step and reuses its result array: the next call overwrites it.
 */
export function compileGrid(
  dispatch: KernelRegistration['dispatch'],
  overrides: Readonly<Record<string, number>>,
): LabKernel['grid'] {
  const [x, y, z] = [dispatch.x, dispatch.y ?? '1', dispatch.z ?? '1'].map(compileExpression) as [
    ReturnType<typeof compileExpression>,
    ReturnType<typeof compileExpression>,
    ReturnType<typeof compileExpression>,
  ];
  const values: Record<string, number> = { ...overrides };
  const grid: [number, number, number] = [0, 0, 0];
  return (dims) => {
    Object.assign(values, dims);
    grid[0] = x.evaluate(values);
    grid[1] = y.evaluate(values);
    grid[2] = z.evaluate(values);
    return grid;
  };
}

/** @param tuned overrides from the tuning sweep; they win over those of the registration */
export function toLabKernel(
  registration: KernelRegistration,
  tuned: Readonly<Record<string, number>> = {},
): LabKernel {
  const constants = { ...registration.overrides, ...tuned };
  const contract = contractOf(registration.op);
  const reflection = reflect(registration.source);
  return {
    name: registration.name,
    digest: kernelDigest({ ...registration, overrides: constants }),
    contract,
    code: registration.source,
    entryPoint: registration.entry_point ?? 'main',
    params: declaredParams(contract, reflection),
    constants,
    // Dispatch rules may use overrides that have only a default.
    grid: compileGrid(registration.dispatch, overrideValues(reflection, constants)),
  };
}

/** The plain stub of an op as a kernel: correct for every shape of the contract, but slow. */
export function stubKernel(wgsl: WgslSources, op: string, format?: string): LabKernel {
  const { source, dispatch, overrides } = renderStub(wgsl, op, 'plain', format);
  return toLabKernel({ name: `stub.${op}`, op, source, dispatch, overrides });
}

/** Kernels for the ops that the built-in kernels compute only in fused form. */
export function unfusedKernels(wgsl: WgslSources): ReadonlyMap<string, LabKernel> {
  return new Map(['add', 'rope', 'kv_write'].map((op) => [op, stubKernel(wgsl, op)]));
}

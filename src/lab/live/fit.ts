/** Which components of the resident model a registered kernel fits. */
import type { BoundKernel } from '../bindings.ts';
import { formatsOf } from '../bindings.ts';
import type { RegisteredKernel } from '../registry.ts';
import { tunedOverridesFor } from '../report-findings.ts';
import { findParamsMismatch } from '../params.ts';
import { LabError } from '../types.ts';
import { findInvalidGrid } from './grid-check.ts';
import { toLabKernel } from './lab-kernel.ts';
import type { LiveModel } from './live-model.ts';

/**
 * Binds a registered kernel to a target.
 * @returns the binding, or why the kernel does not fit
 */
export async function fitTarget(
  live: LiveModel,
  { registration, report, ...rest }: RegisteredKernel,
  id: string,
): Promise<BoundKernel | { readonly misfit: string }> {
  const labDispatches = (await live.dispatches(registration.op)).get(id);
  if (!labDispatches) {
    const refusal = live.targets.reasonMissing(id);
    return {
      misfit: `${id} cannot be bound on its own in this model${refusal === undefined ? '.' : `: ${refusal}.`}`,
    };
  }
  const unsupportedFormat = formatsOf(labDispatches).find(
    (one) => registration.dtypes && !registration.dtypes.includes(one),
  );
  if (unsupportedFormat !== undefined) {
    return {
      misfit: `${id} has weights in ${unsupportedFormat}, but the kernel was checked for ${registration.dtypes?.join(', ')}.`,
    };
  }
  const { gpu, memory } = live.runner;
  const stepLimits = {
    maxWorkgroups: gpu.device.limits.maxComputeWorkgroupsPerDimension,
    stepTokens: memory.capacity.stepTokens,
  };
  const kernel = toLabKernel(registration, tunedOverridesFor(report, labDispatches[0]));
  const mismatch = labDispatches
    .map((lab) => findParamsMismatch(kernel, lab) ?? findInvalidGrid(kernel, lab, stepLimits))
    .find((one) => one !== undefined);
  if (mismatch !== undefined) return { misfit: `The kernel '${kernel.name}' cannot run ${id}: ${mismatch}.` };
  return { target: id, kernel, digest: report.digest, registered: { registration, report, ...rest } };
}

/** @throws LabError `incompatible_component` when the kernel does not fit a target */
export async function fitTargets(
  live: LiveModel,
  registered: RegisteredKernel,
  ids: readonly string[],
): Promise<BoundKernel[]> {
  const bound: BoundKernel[] = [];
  for (const id of ids) {
    const one = await fitTarget(live, registered, id);
    if ('misfit' in one) throw new LabError('incompatible_component', one.misfit);
    bound.push(one);
  }
  return bound;
}

/** Adds bindings to every other target that the kernel fits and that shares no node with those before it. */
export async function fitEverywhere(
  live: LiveModel,
  registered: RegisteredKernel,
  bound: readonly BoundKernel[],
): Promise<BoundKernel[]> {
  const dispatches = await live.dispatches(registered.registration.op);
  const nodesOf = new Map(live.targets.targets.map(({ id, nodes }) => [id, nodes.map((node) => node.id)]));
  const taken = new Set(bound.flatMap(({ target }) => nodesOf.get(target) ?? []));
  const all = [...bound];
  for (const id of dispatches.keys()) {
    const nodes = nodesOf.get(id) ?? [];
    if (nodes.some((node) => taken.has(node))) continue;
    const one = await fitTarget(live, registered, id);
    if ('misfit' in one) continue;
    for (const node of nodes) taken.add(node);
    all.push(one);
  }
  return all;
}

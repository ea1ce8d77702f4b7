/** Runs kernel variants that the adapter cannot: other sizes of subgroups, subgroup matrices. */
import { assemble, variantKey, type Variant } from '../../kernels/assemble.ts';
import type { Grid, Kernel } from '../../kernels/define.ts';
import type { WgslSources } from '../../src/engine/platform.ts';
import { EmulatedKernel } from '../../src/lab/emulator/emulate.ts';
import type { Finding } from '../../src/lab/emulator/tracer.ts';

/** Whether emulated kernels are searched for races, which takes several times as long. */
const findsRaces = process.env['LATHE_TEST_RACES'] === 'true';

const compiled = new WeakMap<WgslSources, Map<string, EmulatedKernel>>();

/** Lanes of the subgroups that a variant is made for. */
export const subgroupLanes = (variant: Variant): number =>
  variant['SUBGROUPS'] === true ? Number(variant['LANES'] ?? variant['WG']) : 32;

/**
 * Attention that rotates reads its token's key and value from the cache while it writes them, and discards what it reads: one
 * instruction reads the rows of all positions.
 */
const isHarmless = (variant: Variant, { kind, message }: Finding): boolean =>
  kind === 'race' &&
  variant['ROPE'] === true &&
  message.startsWith('one invocation reads here what another writes');

/**
 * Writes `buffers` in place, by names of bindings.
 * @throws Error with all findings: indices out of bounds, operations that not all lanes or invocations execute
 */
export function emulate<V extends Variant, P extends Readonly<Record<string, number>>>(
  sources: WgslSources,
  kernel: Kernel<V, P>,
  variant: V,
  grid: Grid,
  buffers: Readonly<Record<string, Uint8Array>>,
): void {
  const key = variantKey(kernel.source, variant);
  const ofSources = compiled.get(sources) ?? new Map<string, EmulatedKernel>();
  compiled.set(sources, ofSources);
  const emulated =
    ofSources.get(key) ??
    new EmulatedKernel(assemble(sources, kernel.source, variant), { isTraced: findsRaces });
  ofSources.set(key, emulated);
  const findings = emulated.dispatch({
    buffers,
    grid,
    subgroupSize: subgroupLanes(variant),
    // Dawn can be told not to clear workgroup memory.
    workgroupMemory: 'poison',
    findsRaces,
  });
  const faults = findings.filter((finding) => !isHarmless(variant, finding));
  if (faults.length > 0) {
    const list = faults.map(({ line, column, message }) => `  ${line}:${column} ${message}`);
    throw new Error(`${key}:\n${list.join('\n')}`);
  }
}

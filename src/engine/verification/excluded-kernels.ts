/** Names of kernels for exclusion: a variant that gives wrong results on an adapter is replaced by the next candidate. */
import type { Variant } from '../../../kernels/assemble.ts';
import type { AdapterCaps } from '../../../kernels/define.ts';

/**
 * `matmul_tile.wgsl q8_0 f16`: a source with the traits that have an alternative. Tile sizes and the like are not part of the
 * name: what is wrong in one of them is not trusted in another.
 */
export const kernelName = (source: string, variant: Variant): string =>
  [
    source,
    ...(typeof variant['FORMAT'] === 'string' && variant['FORMAT'] !== '' ? [variant['FORMAT']] : []),
    ...(variant['SUBGROUPS'] === true ? ['subgroups'] : []),
    ...(variant['F16'] === true ? ['f16'] : []),
  ].join(' ');

export const withoutSubgroups = (caps: AdapterCaps): AdapterCaps => ({ ...caps, subgroupSize: undefined });

/** The capabilities that variants of a source may use, when some of its variants are excluded. */
export function capsWithout(
  caps: AdapterCaps,
  source: string,
  excluded: ReadonlySet<string>,
  format = '',
): AdapterCaps {
  const isExcluded = (traits: Variant) => excluded.has(kernelName(source, { FORMAT: format, ...traits }));
  const usable = isExcluded({ SUBGROUPS: true }) ? withoutSubgroups(caps) : caps;
  return isExcluded({ F16: true }) ? { ...usable, f16: false } : usable;
}

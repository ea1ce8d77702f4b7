import { isRecord } from '../../util/json.ts';
import type { Store, WgslSources } from '../platform.ts';
import type { KernelTimes } from './tuning.ts';
import type { Gpu } from '../gpu/device.ts';

/** The properties that distinguish adapters; the driver's own name is not sufficient. */
export type Fingerprinted = Pick<Gpu, 'facts' | 'caps' | 'model'>;

/** True for sources of measured kernels: when their text changes, measurements are repeated. */
const isMeasuredSource = (path: string): boolean =>
  /^(matmul|matvec|attention|rms_norm|norm_add|layer_norm|gated_norm|sample_pick|logprobs|lib\/)/.test(path);

/** FNV-1a, 32 bits; not cryptographic. */
export function fingerprint(texts: Iterable<string>): string {
  let hash = 0x811c9dc5;
  for (const text of texts) {
    for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
    hash = Math.imul(hash ^ 0xff, 0x01000193);
  }
  return (hash >>> 0).toString(16).padStart(8, '0');
}

/** Differs for other adapters, drivers, features and texts of the wanted sources. */
export function adapterKey(
  adapter: Fingerprinted,
  wgsl: WgslSources,
  isWanted: (path: string) => boolean,
): string {
  const { backend, vendor, description, features } = adapter.facts;
  const sources = [...wgsl].filter(([path]) => isWanted(path)).flat();
  const traits = [backend, vendor, description, ...features, JSON.stringify(adapter.caps), adapter.model];
  return fingerprint([...traits, ...sources]);
}

/**
 * Loads the measurements for this adapter, driver and kernel text; empty when there are none or the file is damaged.
 */
export async function loadTimes(
  store: Store,
  adapter: Fingerprinted,
  wgsl: WgslSources,
): Promise<{ key: string; times: KernelTimes }> {
  const key = `kernels-${adapterKey(adapter, wgsl, isMeasuredSource)}.json`;
  const text = await store.read(key).catch(() => undefined);
  return { key, times: (text === undefined ? undefined : parseTimes(text)) ?? {} };
}

export const saveTimes = (store: Store, key: string, times: KernelTimes): Promise<void> =>
  store.write(key, `${JSON.stringify(times, undefined, 1)}\n`);

function parseTimes(text: string): KernelTimes | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    if (!isRecord(parsed)) return undefined;
    const isValid = Object.values(parsed).every(
      (byOption) =>
        isRecord(byOption) && Object.values(byOption).every((ms) => typeof ms === 'number' && ms > 0),
    );
    return isValid ? (parsed as KernelTimes) : undefined;
  } catch {
    return undefined;
  }
}

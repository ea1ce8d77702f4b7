/** What earlier verifications found on this adapter. */
import { isRecord } from '../../util/json.ts';
import type { Plan } from '../execution/plan.ts';
import { adapterKey, type Fingerprinted, fingerprint } from '../execution/tuning-file.ts';
import type { Store, WgslSources } from '../platform.ts';

export interface VerifiedKernels {
  /** Kernels with wrong results, by their names, and what was wrong. */
  readonly excluded: Readonly<Record<string, string>>;
  /** Plans that were compared with the oracle: the seed of each by `planKey`. */
  readonly passed: Readonly<Record<string, number>>;
}

const nothingKnown: VerifiedKernels = { excluded: {}, passed: {} };

/** Differs when a plan has other kernels, other sizes or another order. */
export const planKey = ({ dispatches }: Plan): string =>
  fingerprint(
    dispatches.flatMap(({ id, choices, bound }) => {
      // The served context changes no result.
      const { max_pages: _, ...params } = bound?.params ?? {};
      return [id, ...choices.map(({ kernel }) => kernel), JSON.stringify(params)];
    }),
  );

/** The name of the file for an adapter, a driver, their features and the kernels' text. */
const fileName = (adapter: Fingerprinted, wgsl: WgslSources): string =>
  `verified-${adapterKey(adapter, wgsl, (path) => !path.startsWith('lab/'))}.json`;

/** Nothing is known where there is no file, or it is damaged. */
export async function loadVerified(
  store: Store | undefined,
  adapter: Fingerprinted,
  wgsl: WgslSources,
): Promise<VerifiedKernels> {
  const text = await store?.read(fileName(adapter, wgsl)).catch(() => undefined);
  return (text === undefined ? undefined : parse(text)) ?? nothingKnown;
}

export const saveVerified = (
  store: Store,
  adapter: Fingerprinted,
  wgsl: WgslSources,
  verified: VerifiedKernels,
): Promise<void> => store.write(fileName(adapter, wgsl), `${JSON.stringify(verified, undefined, 1)}\n`);

function parse(text: string): VerifiedKernels | undefined {
  try {
    const parsed: unknown = JSON.parse(text);
    if (!isRecord(parsed) || !isRecord(parsed['excluded']) || !isRecord(parsed['passed'])) return undefined;
    const { excluded, passed } = parsed;
    const isValid =
      Object.values(excluded).every((reason) => typeof reason === 'string') &&
      Object.values(passed).every((seed) => typeof seed === 'number');
    return isValid ? ({ excluded, passed } as unknown as VerifiedKernels) : undefined;
  } catch {
    return undefined;
  }
}

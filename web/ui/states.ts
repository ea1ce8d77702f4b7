/** The words for states, and the tone of each: the same in all views of the console and of the gateway's page. */

export type Tone = 'good' | 'warn' | 'bad' | undefined;

/** Names on the wires for states that the pages call by another word. */
const labels: Readonly<Record<string, string>> = {
  abandoned: 'cancelled',
  client_gone: 'cancelled',
  completed: 'done',
  crash: 'crashed',
  cut: 'cut off',
  ok: 'done',
  suspended: 'waiting',
};

/**
 * Tone by word: `good` is as it should be, `warn` waits for a person or is limited, `bad` went wrong or was refused, and
 * undefined is neither.
 */
export const stateTones = {
  queued: undefined,
  running: undefined,
  applying: undefined,
  loading: 'warn',
  waiting: 'warn',
  paused: 'warn',
  staged: 'warn',
  done: 'good',
  applied: 'good',
  failed: 'bad',
  refused: 'bad',
  'cut off': 'bad',
  crashed: 'bad',
  interrupted: 'bad',
  cancelled: undefined,
  discarded: undefined,
  skipped: undefined,
  stopped: undefined,
  ready: 'good',
  active: 'good',
  disabled: 'warn',
  expired: 'warn',
  revoked: 'bad',
  passed: 'good',
  accepted: 'good',
  unverified: 'warn',
  stale: 'warn',
  rejected: 'bad',
  quarantined: 'bad',
  unknown: undefined,
} as const satisfies Readonly<Record<string, Tone>>;

const tones: Readonly<Record<string, Tone>> = stateTones;

/** States that are still going to change. */
const open = new Set(['queued', 'running', 'applying', 'loading', 'waiting', 'paused', 'staged']);

/** The word for a state of a wire; one of another version is shown unchanged. */
export const stateLabel = (state: string): string =>
  (Object.hasOwn(labels, state) ? labels[state] : undefined) ?? (state || 'unknown');

export const stateTone = (state: string): Tone => {
  const label = stateLabel(state);
  return Object.hasOwn(tones, label) ? tones[label] : undefined;
};

export const isOpenState = (state: string): boolean => open.has(stateLabel(state));

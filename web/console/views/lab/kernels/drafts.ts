/** What is written and not kept elsewhere: it survives a reload of the tab. */
import type { components } from '../../../api/schema.d.ts';

export type Report = components['schemas']['KernelRegistrationReport'];

/** The text that is worked on, one for each op. */
export interface Draft {
  readonly source: string;
  /** The stub it began as. */
  readonly stub: string;
  /** Of the stub. */
  readonly target: string;
  /** The last check, and the text it was of. */
  readonly checked?: { readonly source: string; readonly report: Report };
}

/** A kernel that was registered from here: the host does not give texts back. */
export interface Sent {
  readonly source: string;
  readonly report: Report;
}

/** Where the tab has no storage, or it is full, they last until it is reloaded. */
const memory = new Map<string, string>();

function read(key: string): unknown {
  let text = memory.get(key);
  try {
    text ??= sessionStorage.getItem(key) ?? undefined;
  } catch {
    // A tab may be denied its storage.
  }
  try {
    return text === undefined ? undefined : (JSON.parse(text) as unknown);
  } catch {
    return undefined;
  }
}

function write(key: string, value: unknown): void {
  const text = JSON.stringify(value);
  memory.set(key, text);
  try {
    sessionStorage.setItem(key, text);
  } catch {
    // Full, or denied.
  }
}

const draftKey = (op: string) => `lathe-lab-draft:${op}`;
const sentKey = 'lathe-lab-sent';
const mostSent = 24;

export const readDraft = (op: string) => read(draftKey(op)) as Draft | undefined;
export const keepDraft = (op: string, draft: Draft): void => write(draftKey(op), draft);
export const isChanged = ({ source, stub }: Draft): boolean => source !== stub;

const allSent = () => (read(sentKey) ?? {}) as Readonly<Record<string, Sent>>;
export const sentOf = (digest: string): Sent | undefined => allSent()[digest];

export function keepSent(sent: Sent): void {
  const { digest } = sent.report;
  const { [digest]: _, ...others } = allSent();
  const latest = Object.entries(others).slice(1 - mostSent);
  write(sentKey, Object.fromEntries([...latest, [digest, sent]]));
}

/** Kernel drafts in session storage, so that they survive a reload of the tab. */
import type { components } from '../../../../api/schema.d.ts';

export type Report = components['schemas']['KernelRegistrationReport'];
type Stub = components['schemas']['LabStub'];

/** The draft of a kernel; one per op. */
export interface Draft {
  readonly source: string;
  /** The stub that the draft started from. */
  readonly stub: string;
  readonly target: Stub['target'];
  /** Weight format of the stub, for ops that read weights. */
  readonly format?: string;
  /** Report of the last check, and the source it is for. */
  readonly checked?: { readonly source: string; readonly report: Report };
}

/** Fallback when session storage is unavailable or full; lasts until a reload. */
const memory = new Map<string, string>();

function read(key: string): unknown {
  let text = memory.get(key);
  try {
    text ??= sessionStorage.getItem(key) ?? undefined;
  } catch {
    // Session storage may be blocked.
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
    // Storage is full or blocked.
  }
}

const draftKey = (op: string) => `lathe-lab-draft:${op}`;

export const readDraft = (op: string) => read(draftKey(op)) as Draft | undefined;
export const saveDraft = (op: string, draft: Draft): void => write(draftKey(op), draft);
export const isChanged = ({ source, stub }: Draft): boolean => source !== stub;

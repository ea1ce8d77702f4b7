import type { AgentSpec } from '../../agents/schemas.ts';

/** The agent form as typed; lists have one entry per line. */
export interface AgentDraft {
  readonly name: string;
  readonly description: string;
  readonly instructions: string;
  readonly model: string;
  readonly tools: string;
  readonly read: string;
  readonly write: string;
  readonly network: string;
  readonly auto_approve: string;
  readonly temperature: string;
  readonly top_p: string;
  readonly top_k: string;
  readonly min_p: string;
  readonly seed: string;
  readonly max_turns: string;
  readonly max_tokens: string;
  readonly timeout_secs: string;
  /** `auto`, `required` or the name of a tool; empty when not set. */
  readonly tool_choice: string;
}

export const grantLists = ['tools', 'read', 'write', 'network', 'auto_approve'] as const;
export const samplingNames = ['temperature', 'top_p', 'top_k', 'min_p', 'seed'] as const;
export const limits = ['max_turns', 'max_tokens', 'timeout_secs'] as const;

const numberText = (value: number | undefined) => (value === undefined ? '' : String(value));

export function draftOf(spec: Partial<AgentSpec>): AgentDraft {
  const { name = '', description = '', instructions = '', model = 'resident' } = spec;
  const grantEntry = (key: (typeof grantLists)[number]) => [key, (spec.grants?.[key] ?? []).join('\n')];
  const samplingEntry = (key: (typeof samplingNames)[number]) => [key, numberText(spec.sampling?.[key])];
  const limitEntry = (key: (typeof limits)[number]) => [key, numberText(spec.limits?.[key])];
  const choice = spec.tool_choice;
  return {
    name,
    description,
    instructions,
    model,
    tool_choice: typeof choice === 'object' ? choice.name : (choice ?? ''),
    ...Object.fromEntries([
      ...grantLists.map(grantEntry),
      ...samplingNames.map(samplingEntry),
      ...limits.map(limitEntry),
    ]),
  } as AgentDraft;
}

export const splitLines = (text: string): string[] =>
  text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

/**
 * The spec to send. Text that is not a number is sent unchanged, so that the host reports it.
 * @param before the stored spec; its members that the form does not have are kept
 */
export function specOf(draft: AgentDraft, before: Readonly<Record<string, unknown>> = {}): AgentSpec {
  const numberOrText = (text: string) => {
    const value = Number(text);
    return Number.isFinite(value) ? value : text;
  };
  const numberGroup = (names: readonly (keyof AgentDraft)[], existing: unknown) => {
    const members = { ...(existing as object | undefined) } as Record<string, unknown>;
    for (const name of names) {
      if (draft[name].trim() === '') delete members[name];
      else members[name] = numberOrText(draft[name]);
    }
    return Object.keys(members).length === 0 ? undefined : members;
  };
  const { tool_choice: choice } = draft;
  const spec: Record<string, unknown> = {
    ...before,
    name: draft.name.trim(),
    description: draft.description === '' ? undefined : draft.description,
    instructions: draft.instructions,
    model: draft.model.trim(),
    grants: Object.fromEntries(grantLists.map((name) => [name, splitLines(draft[name])])),
    sampling: numberGroup(samplingNames, before['sampling']),
    limits: numberGroup(limits, before['limits']),
    tool_choice:
      choice === '' ? undefined : choice === 'auto' || choice === 'required' ? choice : { name: choice },
  };
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined)) as AgentSpec;
}

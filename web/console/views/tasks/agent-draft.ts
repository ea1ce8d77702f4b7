import type { AgentSpec } from '../../agents/shapes.ts';

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

export const lists = ['tools', 'read', 'write', 'network', 'auto_approve'] as const;
export const samplings = ['temperature', 'top_p', 'top_k', 'min_p', 'seed'] as const;
export const limits = ['max_turns', 'max_tokens', 'timeout_secs'] as const;

const text = (value: number | undefined) => (value === undefined ? '' : String(value));

export function draftOf(spec: Partial<AgentSpec>): AgentDraft {
  const { name = '', description = '', instructions = '', model = 'resident' } = spec;
  const list = (of: (typeof lists)[number]) => [of, (spec.grants?.[of] ?? []).join('\n')];
  const sampled = (of: (typeof samplings)[number]) => [of, text(spec.sampling?.[of])];
  const limited = (of: (typeof limits)[number]) => [of, text(spec.limits?.[of])];
  const choice = spec.tool_choice;
  return {
    name,
    description,
    instructions,
    model,
    tool_choice: typeof choice === 'object' ? choice.name : (choice ?? ''),
    ...Object.fromEntries([...lists.map(list), ...samplings.map(sampled), ...limits.map(limited)]),
  } as AgentDraft;
}

export const linesOf = (written: string): string[] =>
  written
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');

/**
 * The spec to send. Text that is not a number is sent unchanged, so that the host reports it.
 * @param before the stored spec; its members that the form does not have are kept
 */
export function specOf(draft: AgentDraft, before: Readonly<Record<string, unknown>> = {}): AgentSpec {
  const number = (written: string) => {
    const value = Number(written);
    return Number.isFinite(value) ? value : written;
  };
  const group = (names: readonly (keyof AgentDraft)[], kept: unknown) => {
    const members = { ...(kept as object | undefined) } as Record<string, unknown>;
    for (const name of names) {
      if (draft[name].trim() === '') delete members[name];
      else members[name] = number(draft[name]);
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
    grants: Object.fromEntries(lists.map((name) => [name, linesOf(draft[name])])),
    sampling: group(samplings, before['sampling']),
    limits: group(limits, before['limits']),
    tool_choice:
      choice === '' ? undefined : choice === 'auto' || choice === 'required' ? choice : { name: choice },
  };
  return Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined)) as AgentSpec;
}

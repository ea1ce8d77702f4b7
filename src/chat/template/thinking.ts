import type { Thinking } from '../types.ts';

/** Whether a template uses a variable in its code, not only in its text. */
export const readsVariable = (source: string, variable: string): boolean =>
  new RegExp(`\\{[%{](?:(?![%}]\\}).)*\\b${variable}\\b`, 's').test(source);

/** Names of an effort level in templates, the API's own name first. */
const effortNames = { low: ['low', 'minimal'], medium: ['medium'], high: ['high', 'xhigh', 'max'] } as const;

/**
 * Converts the requested reasoning effort to template variables.
 * @param isAccepted whether the template renders with an effort name; some support only a few
 */
export function thinkingVariables(
  source: string,
  thinking: Thinking | undefined,
  isAccepted: (effort: string) => boolean,
): Readonly<Record<string, unknown>> {
  if (thinking === undefined) return {};
  const variables: Record<string, unknown> = {};
  const isEnabled = thinking !== false;
  for (const name of ['enable_thinking', 'thinking']) {
    if (readsVariable(source, name)) variables[name] = isEnabled;
  }
  if (readsVariable(source, 'reasoning_effort') && thinking !== true) {
    // Without a way to disable reasoning, use the lowest effort that the template supports.
    const none = /['"]none['"]/.test(source) ? ['none'] : [];
    const candidates = thinking === false ? [...none, ...effortNames.low] : effortNames[thinking];
    const effort = candidates.find(isAccepted);
    if (effort !== undefined) variables['reasoning_effort'] = effort;
  }
  return variables;
}

/** Variables that a template requires in every conversation; FireFunction's needs `functions` and `datetime`. */
export const requiredVariables = (source: string): Readonly<Record<string, unknown>> =>
  readsVariable(source, 'functions') && readsVariable(source, 'datetime')
    ? { functions: '[]', datetime: new Date().toISOString().slice(0, 10) }
    : {};

import type { Thinking } from '../types.ts';

/** Whether a template's code, and not a text in it, names a variable. */
export const reads = (source: string, variable: string): boolean =>
  new RegExp(`\\{[%{](?:(?![%}]\\}).)*\\b${variable}\\b`, 's').test(source);

/** Names of a degree, the wire's own first. */
const degrees = { low: ['low', 'minimal'], medium: ['medium'], high: ['high', 'xhigh', 'max'] } as const;

/**
 * What a wish about thinking means in a template's own variables.
 * @param accepts whether the template renders with a degree: some know few
 */
export function thinkingVariables(
  source: string,
  thinking: Thinking | undefined,
  accepts: (effort: string) => boolean,
): Readonly<Record<string, unknown>> {
  if (thinking === undefined) return {};
  const variables: Record<string, unknown> = {};
  const wanted = thinking !== false;
  for (const name of ['enable_thinking', 'thinking']) {
    if (reads(source, name)) variables[name] = wanted;
  }
  if (reads(source, 'reasoning_effort') && thinking !== true) {
    // The least that the template knows, where nothing turns it off.
    const none = /['"]none['"]/.test(source) ? ['none'] : [];
    const wishes = thinking === false ? [...none, ...degrees.low] : degrees[thinking];
    const effort = wishes.find(accepts);
    if (effort !== undefined) variables['reasoning_effort'] = effort;
  }
  return variables;
}

/** Variables without which a template knows no conversation; FireFunction's wants its tools and the day so. */
export const standingVariables = (source: string): Readonly<Record<string, unknown>> =>
  reads(source, 'functions') && reads(source, 'datetime')
    ? { functions: '[]', datetime: new Date().toISOString().slice(0, 10) }
    : {};

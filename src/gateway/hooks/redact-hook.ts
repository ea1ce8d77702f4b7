import { Redactor } from '../../recorder/redaction/redactor.ts';
import { RedactionTimeoutError, TimeBudget } from '../../recorder/redaction/time-budget.ts';
import { isRecord } from '../../util/json.ts';
import { HookFailure } from './http-hook.ts';
import type { HookText, HookVerdict, RedactHook } from './types.ts';

/** CPU time for all texts of a request, in ms. */
const budgetMs = 1000;

const redactors = new WeakMap<RedactHook, Redactor>();

/** Replaces what a hook's expressions match. @throws HookFailure when the expressions take too long */
export function redactTexts(hook: RedactHook, texts: readonly HookText[]): HookVerdict {
  let redactor = redactors.get(hook);
  if (!redactor) redactors.set(hook, (redactor = new Redactor(hook.expressions, [])));
  const budget = new TimeBudget(budgetMs);
  const clean = (text: string): string => redactor.redact(text, budget).text;
  const replaced = new Map<number, string>();
  try {
    for (const [index, { text, path }] of texts.entries()) {
      const redacted = path?.endsWith('.arguments') === true ? cleanJson(text, clean) : clean(text);
      if (redacted !== text) replaced.set(index, redacted);
    }
  } catch (error) {
    if (!(error instanceof RedactionTimeoutError)) throw error;
    throw new HookFailure('its expressions take too long on this request');
  }
  return replaced.size > 0 ? { action: 'replace', texts: replaced } : { action: 'allow' };
}

/** Redacts the texts within JSON, so that it stays JSON; as a text where it is none. */
function cleanJson(text: string, clean: (text: string) => string): string {
  if (clean(text) === text) return text;
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value) || Array.isArray(value))
      return JSON.stringify(value, (_name, inner: unknown) =>
        typeof inner === 'string' ? clean(inner) : inner,
      );
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  return clean(text);
}

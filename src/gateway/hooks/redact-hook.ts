import { Redactor } from '../../recorder/redaction/redactor.ts';
import { RedactionTimeoutError, TimeBudget } from '../../recorder/redaction/time-budget.ts';
import { isRecord } from '../../util/json.ts';
import { isLongNumber, parseExact } from '../../wires/core/json.ts';
import { HookFailure } from './http-hook.ts';
import { findTexts } from './request-texts.ts';
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

/** Redacts the texts within JSON, names of members included, so that it stays JSON; as a text where it is none. */
function cleanJson(text: string, clean: (text: string) => string): string {
  try {
    const value: unknown = parseExact(text);
    if (isRecord(value) || Array.isArray(value)) {
      let isChanged = false;
      // As the only member, so that the names of all its own count.
      for (const { text: found, replace } of findTexts({ arguments: value })) {
        const cleaned = clean(found);
        if (cleaned === found) continue;
        replace(cleaned);
        isChanged = true;
      }
      const written = JSON.stringify(value, (_name, inner: unknown) => {
        const digits = isLongNumber(inner)
          ? JSON.stringify(inner)
          : typeof inner === 'number'
            ? String(inner)
            : '';
        const cleaned = clean(digits);
        if (cleaned === digits) return inner;
        isChanged = true;
        return cleaned;
      });
      return isChanged ? written : text;
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  return clean(text);
}

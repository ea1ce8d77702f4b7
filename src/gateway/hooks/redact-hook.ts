import { Redactor } from '../../recorder/redaction/redactor.ts';
import { RedactionTimeoutError, TimeBudget } from '../../recorder/redaction/time-budget.ts';
import { isRecord } from '../../util/json.ts';
import { isLongNumber, parseExact } from '../../wires/core/json.ts';
import { HookFailure } from './http-hook.ts';
import { findTexts, replaceTexts } from './request-texts.ts';
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
  if (hasMoreQuotes(text, maxQuotes)) throw new HookFailure('the arguments of a call have too many texts');
  try {
    const value: unknown = parseExact(text);
    if (isRecord(value) || Array.isArray(value)) {
      // As the only member, so that the names of all its own count.
      const found = findTexts({ arguments: value });
      const replaced = new Map<number, string>();
      for (const [index, one] of found.entries()) {
        const cleaned = clean(one.text);
        if (cleaned !== one.text) replaced.set(index, cleaned);
      }
      replaceTexts(found, replaced);
      let isChanged = replaced.size > 0;
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
    if (error instanceof RangeError) throw new HookFailure('the arguments of a call are nested too deeply');
    if (!(error instanceof SyntaxError)) throw error;
  }
  return clean(text);
}

/** Limit of the quotes in the arguments of a call: each text and name in it takes far more memory than its bytes. */
const maxQuotes = 800_000;

function hasMoreQuotes(text: string, limit: number): boolean {
  if (text.length <= limit) return false;
  let count = 0;
  for (let at = text.indexOf('"'); at >= 0 && count <= limit; at = text.indexOf('"', at + 1)) count += 1;
  return count > limit;
}

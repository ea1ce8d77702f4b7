import { isRecord } from '../../util/json.ts';
import type { PlannerRequest } from '../planner.ts';
import { checkOf } from './schema-check.ts';

/** Error message for the model when its answer does not have the required format. */
export function formatFaults(format: PlannerRequest['responseFormat'], text: string): string | undefined {
  if (!format) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'Your answer must be JSON and nothing else. Answer again.';
  }
  if (format.type === 'json')
    return isRecord(value) ? undefined : 'Your answer must be one JSON object. Answer again.';
  const wrong = checkOf(format.schema)(value);
  if (wrong.length === 0) return undefined;
  return ['Your answer does not fit the schema:', ...wrong.map((one) => `- ${one}`), 'Answer again.'].join(
    '\n',
  );
}

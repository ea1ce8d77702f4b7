import { isRecord } from '../../util/json.ts';
import type { ChatModelRequest } from '../chat-model.ts';
import { schemaValidator } from './schema-validator.ts';

/** Error message for the model when its answer does not have the required format. */
export function describeFormatErrors(
  format: ChatModelRequest['responseFormat'],
  text: string,
): string | undefined {
  if (!format) return undefined;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return 'Your answer must be JSON and nothing else. Answer again.';
  }
  if (format.type === 'json')
    return isRecord(value) ? undefined : 'Your answer must be one JSON object. Answer again.';
  const violations = schemaValidator(format.schema)(value);
  if (violations.length === 0) return undefined;
  return [
    'Your answer does not fit the schema:',
    ...violations.map((one) => `- ${one}`),
    'Answer again.',
  ].join('\n');
}

import { z } from 'zod';
import { racks } from '../../tracing/index.ts';
import { jsonObject } from '../../http/schema/json-object.ts';
import { toJsonSchema } from '../../http/schema/list.ts';
import { envelopeSchema } from './envelope.ts';

/** Limits of one request, in bytes except for `events`. */
export const ingestLimits = {
  body: 1024 * 1024,
  events: 256,
  content: 64 * 1024,
  attributes: 16 * 1024,
} as const;

const missingOrError = (message: string) => (issue: { readonly input?: unknown }) =>
  issue.input === undefined ? 'is missing' : message;
const text = (max: number) =>
  z
    .string({ error: missingOrError('expected a text') })
    .min(1, 'must not be empty')
    .max(max, `at most ${max} characters`);
const fitsBytes = (value: string, max: number) => Buffer.byteLength(value) <= max;

const content = z
  .string({ error: 'expected a text' })
  .refine((value) => fitsBytes(value, ingestLimits.content), {
    error: `at most ${ingestLimits.content} bytes of UTF-8; send the rest as further events`,
  });
const attributes = jsonObject('expected an object').refine(
  (value) => fitsBytes(JSON.stringify(value), ingestLimits.attributes),
  { error: `at most ${ingestLimits.attributes} bytes as JSON` },
);

/** Converts times to UTC with milliseconds, as stored, so that they sort as text. */
const time = z.iso
  .datetime({ offset: true, error: missingOrError('expected a time of RFC 3339, as 2030-01-31T12:00:00Z') })
  .transform((at) => new Date(at).toISOString());

const event = z.object(
  {
    id: text(200).describe(
      'Unique in its rack: an event that is sent again is counted as a duplicate and not stored.',
    ),
    at: time,
    kind: text(64).describe('`message`, `tool_call`, `completion`, or a kind of the sender.'),
    subject: text(200).optional().describe('Id of the session, task or run of the event.'),
    role: text(64).optional(),
    model: text(200).optional(),
    content: content.optional().describe(`Text of the event, at most ${ingestLimits.content} bytes.`),
    attributes: attributes
      .optional()
      .describe('Metadata such as numbers and names, without conversation content.'),
  },
  { error: 'expected an event, an object' },
);

/** Also checks the first events of a list that is too long, so that all violations are reported at once. */
const events = z
  .array(z.unknown(), { error: 'expected a list of events' })
  .min(1, 'expected at least one event')
  .meta({ items: toJsonSchema(event), maxItems: ingestLimits.events })
  .transform((values, context) => {
    if (values.length > ingestLimits.events)
      context.addIssue(
        `at most ${ingestLimits.events} events, got ${values.length}; send the rest in another request`,
      );
    const checked: z.output<typeof event>[] = [];
    for (const [index, value] of values.slice(0, ingestLimits.events).entries()) {
      const { success, data, error } = event.safeParse(value);
      if (success) checked.push(data);
      else
        for (const { path, message } of error.issues)
          context.issues.push({ code: 'custom', path: [index, ...path], message, input: value });
    }
    return checked;
  });

export const ingestRequest = z
  .object({ events }, { error: "expected an object with 'events'" })
  .meta({ id: 'RecorderIngestRequest' });

export const ingestAnswer = envelopeSchema(
  'RecorderIngest',
  'ingest',
  z.object({
    rack: z.enum(racks),
    accepted: z.int().min(0).describe('New events; they are stored durably.'),
    duplicates: z.int().min(0).describe('Events that the rack already had.'),
    redacted: z.int().min(0).describe('Matches that were redacted.'),
  }),
);

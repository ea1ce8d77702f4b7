import { z } from 'zod';
import type { RecorderEnvelope } from '../../recorder/types.ts';
import type { Envelope } from '../../http/error.ts';

type Noun = RecorderEnvelope['noun'];

/** Creates a response in the recorder's envelope. */
export const createResponse = (
  noun: Noun,
  data: unknown,
  { warnings = [], init = {} }: { warnings?: readonly string[]; init?: ResponseInit } = {},
): Response => Response.json(wrapInEnvelope(noun, data, warnings), init);

const wrapInEnvelope = (noun: Noun, data: unknown, warnings: readonly string[] = []): RecorderEnvelope => ({
  contract: 1,
  noun,
  data,
  as_of: new Date().toISOString(),
  warnings,
});

/** The noun of a path: its first segment after the prefix; other paths count as `rack`. */
const readNoun = (path: string): Noun => nouns[path.split('/')[3] ?? ''] ?? 'rack';
const nouns: Readonly<Record<string, Noun | undefined>> = {
  racks: 'rack',
  grants: 'grant',
  review: 'review',
  ingest: 'ingest',
};

export const recorderErrorEnvelope: Envelope = ({ code, message, violations }, _requestId, path = '') => ({
  ...wrapInEnvelope(readNoun(path), null),
  error: { code, message, ...(violations ? { violations } : {}) },
});

/** Schema of the envelope for a noun and its data. */
export const envelopeSchema = <Data extends z.ZodType>(id: string, noun: Noun, data: Data) =>
  z
    .object({
      contract: z.literal(1),
      noun: z.literal(noun),
      data,
      as_of: z.iso.datetime(),
      warnings: z.array(z.string()).describe('Issues that need attention although the request succeeded.'),
    })
    .meta({ id });

export const recorderErrorSchema = z
  .object({
    contract: z.literal(1),
    noun: z.enum(['rack', 'grant', 'review', 'ingest']),
    data: z.null(),
    as_of: z.iso.datetime(),
    warnings: z.array(z.string()),
    error: z.object({
      code: z.string(),
      message: z.string(),
      violations: z.array(z.object({ path: z.string(), message: z.string() })).optional(),
    }),
  })
  .meta({ id: 'RecorderRefusal' });

export const jsonResponse = (description: string, schema: z.ZodType) => ({
  description,
  content: { 'application/json': schema },
});
export const errorResponse = (description: string) => jsonResponse(description, recorderErrorSchema);

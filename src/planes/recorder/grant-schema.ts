import { z } from 'zod';
import type { Grant, ReviewEntry, WriteToken } from '../../recorder/types.ts';
import { racks } from '../../tracing/index.ts';
import { envelopeSchema } from './envelope.ts';

const time = z.iso.datetime();
const rack = z.enum(racks);

const grant = z.object({
  id: z.string(),
  rack,
  verbs: z.array(z.enum(['read', 'write'])).readonly(),
  to: z
    .string()
    .describe(
      "`bearer`: holders of the host's bearer token; `peer:NAME`: the peer of this name at the time of the grant.",
    ),
  includes_past: z.boolean().describe('Whether events recorded before the grant may be read.'),
  granted_at: time,
  granted_by: z.string(),
  expires_at: time,
  revoked_at: time.nullable(),
}) satisfies z.ZodType<Grant>;

const writeToken = z.object({
  id: z.string(),
  rack,
  grant: z.string().describe('Valid as long as this grant is valid.'),
  label: z.string().nullable(),
  minted_at: time,
  expires_at: time,
  revoked_at: time.nullable(),
}) satisfies z.ZodType<WriteToken>;

export const grantsAnswer = envelopeSchema(
  'RecorderGrants',
  'grant',
  z.object({
    grants: z.array(grant),
    tokens: z.array(writeToken).describe('Tokens, without their secrets.'),
  }),
);

const acts = [
  'arm',
  'disarm',
  'policy',
  'grant',
  'grant_revoked',
  'token',
  'token_revoked',
  'read',
  'ingest',
  'refused',
  'purge',
  'expired',
] as const;

const entry = z.object({
  seq: z.int(),
  at: time,
  by: z.string(),
  act: z.enum(acts),
  rack: rack.nullable(),
  details: z.record(z.string(), z.unknown()).describe('Counts, and the values before and after.'),
}) satisfies z.ZodType<ReviewEntry>;

export const reviewAnswer = envelopeSchema(
  'RecorderReview',
  'review',
  z.object({
    entries: z.array(entry),
    next: z.int().nullable().describe('Value of `after` for the next page; null on the last page.'),
  }),
);

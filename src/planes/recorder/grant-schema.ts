import { z } from 'zod';
import type { Grant, ReviewEntry, WriteToken } from '../../recorder/types.ts';
import { racks } from '../../watch/index.ts';
import { envelopeOf } from './envelope.ts';

const time = z.iso.datetime();
const rack = z.enum(racks);

const grant = z.object({
  id: z.string(),
  rack,
  verbs: z.array(z.enum(['read', 'write'])).readonly(),
  to: z
    .string()
    .describe("`bearer`: whoever has the host's own; `peer:NAME`: the peer that had this name then."),
  includes_past: z.boolean().describe('Also what was recorded before it was granted may be read.'),
  granted_at: time,
  granted_by: z.string(),
  expires_at: time,
  revoked_at: time.nullable(),
}) satisfies z.ZodType<Grant>;

const writeToken = z.object({
  id: z.string(),
  rack,
  grant: z.string().describe('It counts as long as this grant does.'),
  label: z.string().nullable(),
  minted_at: time,
  expires_at: time,
  revoked_at: time.nullable(),
}) satisfies z.ZodType<WriteToken>;

export const grantsAnswer = envelopeOf(
  'RecorderGrants',
  'grant',
  z.object({ grants: z.array(grant), tokens: z.array(writeToken).describe('Without their secrets.') }),
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
  details: z.record(z.string(), z.unknown()).describe('Counts, and what was before and after.'),
}) satisfies z.ZodType<ReviewEntry>;

export const reviewAnswer = envelopeOf(
  'RecorderReview',
  'review',
  z.object({
    entries: z.array(entry),
    next: z.int().nullable().describe('The `after` of what follows; null where nothing does.'),
  }),
);

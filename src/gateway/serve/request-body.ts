import { type BodySource, type JsonBody, type JsonRules, readJson } from '../../http/body.ts';
import { isRecord, type Json } from '../../util/json.ts';
import { invalidRequest, WireError } from '../../wires/core/error.ts';
import type { BodyMemoryLease } from './body-memory-limiter.ts';

/** The gateway's limits for JSON bodies. */
const jsonRules: JsonRules = {
  maxDepth: 200,
  maxValues: 400_000,
  countsElements: true,
  codes: { depth: 'json_too_deep', encoding: 'unsupported_media_type' },
  refuse: (status, code, message, options) =>
    new WireError(status, 'invalid_request_error', message, { code, ...options }),
};

export interface JsonObjectBody extends JsonBody {
  readonly value: Json;
}

/** Reads a JSON object of at most `limitBytes`. @throws WireError 400, 413, 415, 429 @throws ClientGone */
export async function readJsonObject(
  source: BodySource,
  limitBytes: number,
  lease?: BodyMemoryLease,
): Promise<JsonObjectBody> {
  const { text, value } = await readJson(source, limitBytes, jsonRules, lease?.take).finally(lease?.close);
  if (!isRecord(value))
    throw invalidRequest(
      `The body must be a JSON object, got ${value === null ? 'null' : Array.isArray(value) ? 'a list' : `a ${typeof value}`}.`,
      { code: 'invalid_type' },
    );
  return { text, value };
}

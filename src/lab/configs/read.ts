import { resolve } from 'node:path';
import type { Finding } from '../types.ts';
import { canonicalJson } from '../../signing/canonical-json.ts';
import { type ParsedEnvelope, envelopeSchema } from './schema.ts';
import { maxConfigBytes, readRegularFile } from './store.ts';

const maxViolations = 50;
const maxValues = 250_000;
const maxDepth = 60;

/** A config that was read, or findings that say why it is invalid. */
export interface ParsedConfig {
  readonly findings: readonly Finding[];
  /** `raw` includes members that the schema does not know: the signature covers them. */
  readonly config?: { readonly raw: object; readonly envelope: ParsedEnvelope };
}

export const errorFinding = (code: string, message: string): Finding => ({
  code,
  severity: 'error',
  message,
});

/**
 * The same finding for every path that is not a readable config, so that a caller cannot find out which files the host
 * has or what they contain.
 */
const unreadable = (path: string): ParsedConfig => ({
  findings: [
    errorFinding(
      'unreadable',
      `path: ${JSON.stringify(path.slice(0, 200))} is not a config that this host can read; expected a file that the lab saved`,
    ),
  ],
});

/**
 * Whether a JSON value has the main members of a config, so that detailed findings reveal nothing about other files.
 */
const looksLikeConfig = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  ['contract', 'bindings', 'kernels', 'signature'].every((member) => Object.hasOwn(value, member));

/** @param folder where relative paths start */
export async function readConfigFile(path: string, folder: string): Promise<ParsedConfig> {
  let bytes: Uint8Array;
  try {
    bytes = await readRegularFile(resolve(folder, path), maxConfigBytes);
  } catch {
    return unreadable(path);
  }
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
    value = JSON.parse(text);
  } catch {
    return unreadable(path);
  }
  if (!looksLikeConfig(value)) return unreadable(path);
  const { findings, config } = readConfigValue(value);
  if (config === undefined || text === canonical(value)) return { findings, ...(config && { config }) };
  const message = `${path} is not canonical JSON (RFC 8785): it was edited or reformatted after saving`;
  return { findings: [...findings, errorFinding('not_canonical', message)], config };
}

/** @param value any JSON */
export function readConfigValue(value: unknown): ParsedConfig {
  if (!isWithinSizeLimits(value)) {
    const limit = `more than ${maxValues} values or ${maxDepth} levels`;
    return { findings: [errorFinding('too_large', `The config has ${limit}`)] };
  }
  const { contract } = (value ?? {}) as { contract?: unknown };
  if (typeof contract === 'number' && contract !== 1) {
    return { findings: [errorFinding('unknown_contract', `contract: expected 1, got ${contract}`)] };
  }
  const read = envelopeSchema.safeParse(value);
  if (read.success) return { findings: [], config: { raw: value as object, envelope: read.data } };
  const issues = read.error.issues.slice(0, maxViolations);
  return {
    findings: issues.map(({ path, message }) =>
      errorFinding(
        'not_an_envelope',
        `${path.length > 0 ? `${path.map(String).join('.')}: ` : ''}${message}`,
      ),
    ),
  };
}

function canonical(value: unknown): string | undefined {
  try {
    return canonicalJson(value);
  } catch {
    return undefined;
  }
}

/**
 * Limits size and depth, to bound the time and stack of validation: the schema reports an issue for every wrong
 * element.
 */
function isWithinSizeLimits(value: unknown): boolean {
  let level: unknown[] = [value];
  let count = 0;
  for (let depth = 0; level.length > 0; depth++) {
    count += level.length;
    if (count > maxValues || depth > maxDepth) return false;
    level = level.flatMap((one) => (typeof one === 'object' && one !== null ? Object.values(one) : []));
  }
  return true;
}

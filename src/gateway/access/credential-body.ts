import { z } from 'zod';
import { isRecord, type Json } from '../../util/json.ts';
import type { Violation } from '../../http/error.ts';
import type { ByokProvider } from '../config/types.ts';
import { invalidRequest } from '../../wires/core/error.ts';
import { AddressRefusedError, vetBaseUrl } from '../upstream/address-vetting.ts';

/** A credential that a caller wants to store. */
export interface CredentialInput {
  readonly apiKey: string;
  /** URL of a cloud resource, without `basePath`. */
  readonly baseUrl: string | undefined;
  /** The base URL at which the credential is verified. */
  readonly verificationUrl: string;
}

const maxKeyLength = 8192;
const maxUrlLength = 2048;
/** Keys are sent in a header: printable ASCII without spaces. */
const keyPattern = /^[\x21-\x7e]+$/;

/** Request schema for the OpenAPI document. `parseCredentialBody` does the validation, which depends on the provider. */
export const credentialRequestSchema = z
  .object({
    api_key: z.string().max(maxKeyLength).regex(keyPattern).describe("The provider's key."),
    base_url: z
      .string()
      .max(maxUrlLength)
      .nullish()
      .describe('The URL of your resource, for providers where every customer has one.'),
  })
  .meta({ id: 'CredentialRequest' });

/** The public part of a stored credential. */
export const storedCredentialSchema = z
  .object({
    provider: z.string(),
    status: z.enum(['active', 'rejected']),
    last4: z.string(),
    base_url: z.string().optional(),
    created_at: z.string(),
  })
  .meta({ id: 'Credential' });

/** Validates the body of `PUT /v1/keys/{provider}`. @throws WireError 400 with every violation */
export function parseCredentialBody(body: unknown, provider: ByokProvider): CredentialInput {
  const members = toMembers(body);
  const violations: Violation[] = [];
  const apiKey = members['api_key'];
  const keyProblem = findKeyFault(apiKey);
  if (keyProblem !== undefined) violations.push({ path: 'api_key', message: keyProblem });

  let [baseUrl, verificationUrl]: [string | undefined, string] = [undefined, provider.baseUrl ?? ''];
  const requestedUrl = members['base_url'];
  if (provider.baseUrl !== undefined) {
    if (requestedUrl !== undefined && requestedUrl !== null)
      violations.push({
        path: 'base_url',
        message: `'${provider.id}' has a URL of its own: leave base_url out`,
      });
  } else {
    const { hostSuffixes, basePath } = provider;
    const urlCheck = checkUrl(requestedUrl, { mode: 'public', hostSuffixes, basePath });
    if ('message' in urlCheck) violations.push({ path: 'base_url', message: urlCheck.message });
    else [baseUrl, verificationUrl] = [urlCheck.url.origin, withoutTrailingSlash(urlCheck.url)];
  }
  if (violations.length > 0) throw violationsError(violations);
  return { apiKey: apiKey as string, baseUrl, verificationUrl };
}

/** Validates an endpoint that is registered on the command line. @throws WireError 400 with every violation */
export function parseRegisteredEndpoint(endpoint: { readonly apiKey?: string; readonly baseUrl: string }): {
  readonly apiKey: string;
  readonly baseUrl: string;
} {
  const violations: Violation[] = [];
  const keyProblem = endpoint.apiKey === undefined ? undefined : findKeyFault(endpoint.apiKey);
  if (keyProblem !== undefined) violations.push({ path: 'api_key', message: keyProblem });
  const urlCheck = checkUrl(endpoint.baseUrl, { mode: 'registered' });
  if ('message' in urlCheck) violations.push({ path: 'base_url', message: urlCheck.message });
  if (violations.length > 0 || 'message' in urlCheck) throw violationsError(violations);
  return { apiKey: endpoint.apiKey ?? '', baseUrl: withoutTrailingSlash(urlCheck.url) };
}

function toMembers(body: unknown): Json {
  if (isRecord(body)) return body;
  throw invalidRequest('The body must be a JSON object: {"api_key": "..."}.', {
    violations: [{ path: '', message: 'expected a JSON object' }],
  });
}

/** What is wrong with a key, without its value. */
function findKeyFault(key: unknown): string | undefined {
  if (key === undefined) return "is missing: the provider's key";
  if (typeof key !== 'string')
    return `expected a string, got ${Array.isArray(key) ? 'an array' : key === null ? 'null' : `a ${typeof key}`}`;
  if (key === '') return "is empty: the provider's key";
  if (key.length > maxKeyLength)
    return `has ${key.length} characters, more than the ${maxKeyLength} that a key may have`;
  if (!keyPattern.test(key))
    return 'contains spaces, line breaks or characters outside ASCII, which no key has';
  return undefined;
}

function checkUrl(
  value: unknown,
  rules: Parameters<typeof vetBaseUrl>[1],
): { readonly url: URL } | { readonly message: string } {
  if (value === undefined || value === null) {
    const example = rules.hostSuffixes?.[0] ?? '.example';
    return { message: `is missing: the URL of your resource, as https://NAME${example}` };
  }
  if (typeof value !== 'string') return { message: `expected a string, got a ${typeof value}` };
  if (value.length > maxUrlLength)
    return { message: `has ${value.length} characters, more than ${maxUrlLength}` };
  try {
    return { url: vetBaseUrl(value, rules) };
  } catch (error) {
    if (error instanceof AddressRefusedError) return { message: error.message.replace(/^It /, 'it ') };
    throw error;
  }
}

/** The URL without trailing slashes. */
const withoutTrailingSlash = (url: URL): string => url.href.replace(/\/+$/, '');

function violationsError(violations: readonly Violation[]) {
  const summary = violations.map(({ path, message }) => `${path}: ${message.replace(/\.$/, '')}`).join('; ');
  const [first] = violations;
  return invalidRequest(`The credential cannot be stored: ${summary}.`, {
    violations,
    ...(first ? { param: first.path } : {}),
  });
}

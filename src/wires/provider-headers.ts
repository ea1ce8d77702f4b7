import { providerWireOf, type WireKind } from './providers.ts';

type Headers = Readonly<Record<string, string>>;

/**
 * Builds the headers of an upstream request: those of the wire, then those of the body, then the credential, which nothing
 * overrides.
 * @param cloudResource whether the request goes to a cloud resource, which takes the key in `api-key` on every wire
 */
export function providerHeaders(
  wire: WireKind,
  { apiKey, isCloudResource }: { readonly apiKey: string | undefined; readonly isCloudResource: boolean },
  extraHeaders: Headers = {},
): Record<string, string> {
  const { credentialHeader, headers } = providerWireOf(wire);
  // A caller's own endpoint may need no key.
  const credential = !apiKey ? {} : isCloudResource ? { 'api-key': apiKey } : credentialHeader(apiKey);
  return {
    'user-agent': 'lathe',
    // Compressed streams are delayed until a block is full.
    'accept-encoding': 'identity',
    ...headers,
    ...extraHeaders,
    ...credential,
  };
}

import type { Candidate, Provider } from '../catalog/types.ts';
import type { ByokProvider } from '../config/types.ts';
import { type AddressMode, vetBaseUrl } from './address-vetting.ts';

/** Where the requests of a candidate are sent. */
export type Destination =
  | { readonly kind: 'local' }
  | { readonly kind: 'hosts'; readonly provider: Provider }
  | {
      readonly kind: 'url';
      readonly mode: AddressMode;
      readonly base: URL;
      readonly isCloudResource: boolean;
    };

/** The provider name for messages. */
export const providerNameOf = ({ model, credential }: Candidate): string =>
  credential.kind === 'byok' ? credential.provider : model.provider.id;

/**
 * Determines the destination of a candidate. URLs of the operator may lead anywhere. A URL that belongs to a credential is
 * that of a cloud resource, or of an endpoint that was registered on the command line (`kind:slug`).
 * @throws AddressRefusedError
 */
export function destinationOf(
  { model: { provider }, credential }: Candidate,
  byok: readonly ByokProvider[],
): Destination {
  if (credential.kind === 'byok') {
    const byokProvider = byok.find(({ id }) => id === credential.provider);
    if (credential.baseUrl === undefined) {
      const base = byokProvider?.baseUrl ?? provider.baseUrls[0] ?? '';
      return {
        kind: 'url',
        mode: 'house',
        base: vetBaseUrl(base, { mode: 'house' }),
        isCloudResource: false,
      };
    }
    const isRegistered = !byokProvider && credential.provider.includes(':');
    return {
      kind: 'url',
      ...vetCredentialUrl(credential.baseUrl, isRegistered ? 'registered' : 'public', byokProvider),
      isCloudResource: !isRegistered,
    };
  }
  if (provider.baseUrls.length === 0 && provider.id === 'local') return { kind: 'local' };
  if (provider.wire === 'lathe') {
    for (const url of provider.baseUrls) vetBaseUrl(url, { mode: 'house' });
    return { kind: 'hosts', provider };
  }
  const base = vetBaseUrl(provider.baseUrls[0] ?? '', { mode: 'house' });
  return { kind: 'url', mode: 'house', base, isCloudResource: false };
}

function vetCredentialUrl(text: string, mode: AddressMode, byokProvider: ByokProvider | undefined) {
  const { hostSuffixes = [], basePath = '' } = byokProvider ?? {};
  return { mode, base: vetBaseUrl(text, { mode, hostSuffixes, basePath }) };
}

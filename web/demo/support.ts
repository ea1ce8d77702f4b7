/** Why this page can have no GPU. */
export type Lack = 'insecure' | 'missing' | 'no_adapter';

/** As far as that can be told before anything is loaded; undefined where nothing stands in the way. */
export function lackOf(page: {
  readonly isSecureContext: boolean;
  readonly navigator: object;
}): Lack | undefined {
  if (!page.isSecureContext) return 'insecure';
  return 'gpu' in page.navigator && page.navigator.gpu !== undefined ? undefined : 'missing';
}

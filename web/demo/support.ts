/** Why this page cannot use a GPU. */
export type Lack = 'insecure' | 'missing' | 'no_adapter';

/** Checks that need no download; undefined when WebGPU is available. */
export function lackOf(page: {
  readonly isSecureContext: boolean;
  readonly navigator: object;
}): Lack | undefined {
  if (!page.isSecureContext) return 'insecure';
  return 'gpu' in page.navigator && page.navigator.gpu !== undefined ? undefined : 'missing';
}

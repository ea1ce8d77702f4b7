/** Why this page cannot use a GPU. */
export type WebGpuIssue = 'insecure' | 'missing' | 'no_adapter';

/** Checks that need no download; undefined when WebGPU is available. */
export function webGpuIssue(page: {
  readonly isSecureContext: boolean;
  readonly navigator: object;
}): WebGpuIssue | undefined {
  if (!page.isSecureContext) return 'insecure';
  return 'gpu' in page.navigator && page.navigator.gpu !== undefined ? undefined : 'missing';
}

/** Addresses of the kernels tab. */

/** The workbench, open for an op. */
export const workbenchPath = (op: string): string => `/console/lab/kernels?op=${encodeURIComponent(op)}`;

/** The page of a kernel. @param at when the registration was made that the page shows; default: the last one */
export const kernelPath = (nameOrDigest: string, at?: string): string =>
  `/console/lab/kernels/${encodeURIComponent(nameOrDigest)}${at === undefined ? '' : `?version=${encodeURIComponent(at)}`}`;

/** A digest as shown in tables. */
export const shortDigest = (digest: string): string => digest.replace('sha256:', '').slice(0, 12);

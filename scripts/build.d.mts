export function buildIfNeeded(options?: { withTests?: boolean; withPackages?: boolean }): boolean;

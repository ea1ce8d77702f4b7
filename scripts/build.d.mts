export function buildIfNeeded(options?: { withTests?: boolean }): boolean;

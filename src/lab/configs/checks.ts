import { timingSafeEqual } from 'node:crypto';
import { kernelDigest } from '../digest.ts';
import { kernelNamePattern } from '../kernel-header.ts';
import { type Finding, isConfigName } from '../types.ts';
import { errorFinding } from './read.ts';
import type { ParsedEnvelope } from './schema.ts';
import { decodeBase64, computeKeyId, rawPublicKey, type SigningKey } from '../../signing/ed25519.ts';
import { isSignatureValid } from './signature.ts';

type ReadKernel = ParsedEnvelope['kernels'][number];

/** Facts about this host that a config is validated against. */
export interface ValidationContext {
  readonly ownKey: Pick<SigningKey, 'publicKey' | 'keyId'>;
  /** Ids of the keys given with `--trust-key`. */
  readonly trustedKeys: readonly string[];
  /** Digest of the resident model: `sha256:<hex>`. */
  readonly modelDigest: string;
  readonly knownOps: readonly string[];
  /** Features of the adapter. */
  readonly features: readonly string[];
  /** `--allow-unverified-kernels`: a kernel without parity results gets a warning instead of an error. */
  readonly allowUnverified?: boolean;
  /** Static checks of a kernel; they need no device. */
  readonly staticFindings?: (kernel: ReadKernel) => readonly Finding[] | Promise<readonly Finding[]>;
}

/** @param raw the envelope as read, with unknown members: the signature covers them */
export function checkSignature(raw: object, envelope: ParsedEnvelope, context: ValidationContext): Finding[] {
  const { alg, key_id: keyId, public_key: carriedKey, value } = envelope.signature;
  if (alg !== 'ed25519')
    return [errorFinding('unsupported_algorithm', `signature.alg: expected ed25519, got ${alg}`)];
  const ownKey = keyId === context.ownKey.keyId ? rawPublicKey(context.ownKey.publicKey) : undefined;
  if (ownKey === undefined && carriedKey === undefined) {
    const message = `signature.public_key is missing: the key ${keyId} is not this host's, so the signature cannot be checked`;
    return [errorFinding('missing_public_key', message)];
  }
  const publicKey = carriedKey === undefined ? ownKey : decodeBase64(carriedKey, 32);
  if (publicKey === undefined || computeKeyId(publicKey) !== keyId) {
    return [errorFinding('tampered', `signature.public_key is not the key that key_id names (${keyId})`)];
  }
  if (ownKey !== undefined && !timingSafeEqual(ownKey, publicKey)) {
    return [
      errorFinding(
        'tampered',
        `signature.public_key is not the key of this host, although key_id is ${keyId}`,
      ),
    ];
  }
  if (!isSignatureValid(raw, publicKey, value)) {
    return [
      errorFinding(
        'tampered',
        `The signature of ${keyId} is invalid: the config was changed after it was signed`,
      ),
    ];
  }
  if (ownKey !== undefined || context.trustedKeys.includes(keyId)) return [];
  const message = `Signed by ${keyId}, which this host does not trust; if you do, start it with --trust-key ${keyId}`;
  return [errorFinding('untrusted_key', message)];
}

export async function checkSafety(envelope: ParsedEnvelope, context: ValidationContext): Promise<Finding[]> {
  const { name, model, kernels, bindings } = envelope;
  const findings: Finding[] = [];
  if (!isConfigName(name))
    findings.push(errorFinding('unsafe_name', `name: ${quote(name)} is not a valid config name`));
  if (model.digest !== context.modelDigest) {
    const message = `The config is for the model ${model.digest}, but the resident model is ${context.modelDigest}`;
    findings.push(errorFinding('model_mismatch', message));
  }
  const names = kernels.map((kernel) => kernel.name);
  for (const duplicate of new Set(names.filter((one, index) => names.indexOf(one) !== index))) {
    findings.push(errorFinding('duplicate_kernel', `kernels: ${quote(duplicate)} occurs more than once`));
  }
  for (const kernel of new Set(bindings.map((binding) => binding.kernel))) {
    if (names.includes(kernel)) continue;
    findings.push(errorFinding('unknown_kernel', `bindings: the config has no kernel ${quote(kernel)}`));
  }
  for (const kernel of kernels) {
    const kernelFindings = await checkKernel(kernel, context);
    findings.push(
      ...kernelFindings.map((finding) => ({
        ...finding,
        message: `${quote(kernel.name)}: ${finding.message}`,
      })),
    );
  }
  return findings;
}

async function checkKernel(kernel: ReadKernel, context: ValidationContext): Promise<Finding[]> {
  const { name, op, requires = [], digest } = kernel;
  const findings: Finding[] = [];
  if (!kernelNamePattern.test(name)) findings.push(errorFinding('unsafe_name', `not a valid kernel name`));
  const actual = kernelDigest(kernel);
  if (actual !== digest) {
    findings.push(
      errorFinding('digest_mismatch', `its digest is ${actual}, but the config states ${quote(digest)}`),
    );
  }
  for (const feature of requires) {
    if (context.features.includes(feature)) continue;
    findings.push(errorFinding('feature_missing', `needs ${feature}, which this adapter does not have`));
  }
  if (!context.knownOps.includes(op)) {
    return [
      ...findings,
      errorFinding('unknown_op', `op: expected one of ${context.knownOps.join(', ')}, got ${quote(op)}`),
    ];
  }
  return [...findings, ...((await context.staticFindings?.(kernel)) ?? [])];
}

/** Checks the gate reports that the config contains. Nothing runs. */
export function checkEvidence({ kernels, evidence }: ParsedEnvelope, context: ValidationContext): Finding[] {
  return kernels.flatMap(({ name, digest }) => {
    const report = Object.hasOwn(evidence, name) ? evidence[name] : undefined;
    if (report === undefined) {
      return [errorFinding('missing_evidence', `${quote(name)}: the config has no gate report for it`)];
    }
    if (report.kernel !== name || report.digest !== digest) {
      const message = `${quote(name)}: the report is about ${quote(report.kernel)} with the digest ${report.digest}`;
      return [errorFinding('evidence_mismatch', message)];
    }
    const failed = report.stages.find(({ ok }) => !ok);
    const failedCase = report.parity?.find(({ ok }) => !ok);
    if (!report.accepted || failed || failedCase) {
      const where = failed
        ? ` in the stage ${failed.stage}`
        : failedCase
          ? ` in the case ${quote(failedCase.case)}`
          : '';
      return [errorFinding('evidence_rejected', `${quote(name)}: the gate did not accept it${where}`)];
    }
    if (report.unverified || report.parity === undefined || report.parity.length === 0) {
      const severity = context.allowUnverified ? 'warning' : 'error';
      const message = `${quote(name)}: was never compared with its oracle; the host binds it only with --allow-unverified-kernels`;
      return [{ code: 'evidence_unverified', severity, message }];
    }
    const scale = report.tolerance?.scale ?? 1;
    if (scale <= 1) return [];
    const message = `${quote(name)}: was compared with ${scale} times the usual tolerance`;
    return [{ code: 'loose_tolerance', severity: 'warning' as const, message }];
  });
}

const quote = (text: string): string => JSON.stringify(text.length > 100 ? `${text.slice(0, 100)}...` : text);

/** Saves an export as a file. Failures are reported on this page. */
import { CHANGE_HEADERS, ServiceError } from "./api";

/** Downloads an export, with files of words in other languages; returns the number of characters it could not show. */
export async function download(path: string, title: string, format: string, texts: string[] = []): Promise<number> {
  const asked = texts.length ? { method: "POST", headers: CHANGE_HEADERS, body: JSON.stringify({ texts }) } : {};
  const response = await fetch(path, asked).catch(() => {
    throw new ServiceError("unreachable", 0);
  });
  if (!response.ok) {
    const body = (await response.json().catch(() => null)) as { error?: { message?: string } } | null;
    throw new ServiceError(body?.error?.message ?? response.statusText, response.status);
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await response.blob());
  link.download = fileName(response.headers.get("content-disposition"), title, format);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  return Number(response.headers.get("x-interleave-missing-characters") ?? 0);
}

/** The file name given by the service, or one made from the title. */
export function fileName(disposition: string | null, title: string, format: string): string {
  const encoded = /filename\*=UTF-8''([^;]+)/i.exec(disposition ?? "")?.[1];
  const plain = /filename="([^"]+)"/i.exec(disposition ?? "")?.[1];
  const named = encoded ? decodeURIComponent(encoded) : plain;
  if (named) return named.replace(/[/\\]/g, "-");
  const words = title.normalize("NFKC").replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "").slice(0, 60);
  return `${words || "document"}.${format}`;
}

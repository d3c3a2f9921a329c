/** The draft of a request. It survives reloads, navigation, a closed tab and a stopped service. */
import { loadValue, storeValue } from "./database";
import type { AssetKind } from "./types";

const KEY = "interleave-draft";

export interface GivenImage {
  url: string;
  name: string;
}

/** A named asset that must stay consistent. */
export interface GivenAsset {
  key: number;
  name: string;
  kind: AssetKind;
  description: string;
  image: GivenImage | null;
}

let keys = 0;

export function newAsset(): GivenAsset {
  return { key: ++keys, name: "", kind: "character", description: "", image: null };
}

/** Whether any field of an asset is filled in. Empty assets are not sent. */
export function isFilled(asset: GivenAsset): boolean {
  return Boolean(asset.name.trim() || asset.description.trim() || asset.image);
}

class Draft {
  text = $state(localStorage.getItem(KEY) ?? "");
  images = $state<GivenImage[]>([]);
  assets = $state<GivenAsset[]>([]);

  constructor() {
    addEventListener("storage", (event) => {
      if (event.key === KEY && document.hidden) this.text = event.newValue ?? "";
    });
    void this.load();
  }

  set(words: string, images: GivenImage[] = [], assets: GivenAsset[] = []): void {
    this.text = words;
    this.images = images;
    this.assets = assets;
    this.keep();
  }

  keep(): void {
    localStorage.setItem(KEY, this.text);
  }

  /** Reads images and assets from earlier, then keeps every change of them. */
  private async load(): Promise<void> {
    const kept = await loadValue<{ images: GivenImage[]; assets: GivenAsset[] }>("draft");
    if (kept && !this.images.length && !this.assets.length) {
      keys = Math.max(keys, ...kept.assets.map((each) => each.key));
      this.images = kept.images;
      this.assets = kept.assets;
    }
    $effect.root(() => {
      $effect(() => storeValue("draft", { images: $state.snapshot(this.images), assets: $state.snapshot(this.assets) }));
    });
  }
}

export const draft = new Draft();

/** Reads a file as a `data:` URL. Throws if the browser cannot decode it as an image. */
export async function readImage(file: File): Promise<GivenImage> {
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(new Error(file.name));
    reader.readAsDataURL(file);
  });
  const image = new Image();
  image.src = url;
  await image.decode();
  return { url, name: file.name };
}

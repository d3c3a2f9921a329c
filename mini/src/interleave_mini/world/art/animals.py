"""Animals, and what some of them were before they grew up."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from interleave_mini.world.art.moods import Face, with_moods
from interleave_mini.world.art.pieces import bird_feet, goggle, joined, leg, limb, oval
from interleave_mini.world.brush import (
    BLUSH,
    FLAME,
    GLASS,
    GOLD,
    LEAF,
    RGB,
    WHITE,
    WOOD,
    Brush,
    mirrored,
)

COMB: RGB = (206, 44, 60)

# Animals that stay as they are


def cat(brush: Brush, *, mouth: bool = True) -> None:
    limb(brush, [(0.72, 0.84), (0.87, 0.8), (0.9, 0.6), (0.82, 0.5)], brush.main, 0.075)
    brush.blob([(0.3, 0.92), (0.28, 0.66), (0.46, 0.52), (0.68, 0.6), (0.78, 0.92)], brush.main)
    brush.ellipse(0.47, 0.78, 0.1, 0.13, brush.pale, line=0)
    for x in (0.38, 0.56):
        brush.ellipse(x, 0.92, 0.075, 0.045, brush.light)
    for side in (-1, 1):
        ear = [(0.42 + side * 0.28, 0.08), (0.42 + side * 0.07, 0.2), (0.42 + side * 0.27, 0.36)]
        brush.polygon(ear, brush.main)
        inner = [(0.42 + side * 0.25, 0.15), (0.42 + side * 0.13, 0.22), (0.42 + side * 0.24, 0.3)]
        brush.polygon(inner, BLUSH, line=0)
    brush.ellipse(0.42, 0.38, 0.29, 0.24, brush.main)
    for x in (0.36, 0.42, 0.48):
        brush.stroke([(x, 0.17), (x, 0.22)], brush.dark, 0.03)
    for side in (-1, 1):
        brush.eye(0.42 + side * 0.12, 0.35, 0.042)
        brush.stroke([(0.42 + side * 0.14, 0.45), (0.42 + side * 0.32, 0.42)], brush.ink, 0.014)
        brush.stroke([(0.42 + side * 0.14, 0.48), (0.42 + side * 0.31, 0.5)], brush.ink, 0.014)
        if mouth:
            brush.arc(0.42 + side * 0.04, 0.47, 0.04, 0.035, 0, 180, brush.ink, 0.018)
    brush.polygon([(0.385, 0.43), (0.455, 0.43), (0.42, 0.47)], BLUSH, line=0.014)


def dog(brush: Brush, *, mouth: bool = True) -> None:
    limb(brush, [(0.82, 0.58), (0.91, 0.48), (0.9, 0.3)], brush.main, 0.07)
    for x in (0.47, 0.72):
        brush.box(x - 0.05, 0.7, x + 0.05, 0.92, brush.dark, round=0.04)
    body = [(0.26, 0.5), (0.5, 0.5), (0.78, 0.48), (0.88, 0.6), (0.84, 0.76), (0.5, 0.8), (0.3, 0.74)]
    head = oval(0.34, 0.34, 0.23, 0.22)
    muzzle = oval(0.19, 0.43, 0.13, 0.1)
    joined(brush, [body, leg(0.36, 0.6, 0.13), leg(0.81, 0.6, 0.13), head, muzzle], brush.main)
    brush.ellipse(0.72, 0.58, 0.1, 0.07, brush.dark, turn=-12, line=0)
    if mouth:
        brush.blob([(0.17, 0.52), (0.24, 0.51), (0.23, 0.6), (0.18, 0.6)], BLUSH, line=0.018)
        brush.curve([(0.09, 0.49), (0.18, 0.52), (0.29, 0.48)], brush.ink, 0.022)
    brush.ellipse(0.09, 0.37, 0.055, 0.042, brush.ink, line=0)
    brush.eye(0.28, 0.28, 0.042)
    brush.blob([(0.4, 0.16), (0.52, 0.17), (0.6, 0.36), (0.55, 0.54), (0.45, 0.5), (0.42, 0.32)], brush.dark)
    brush.curve([(0.33, 0.58), (0.42, 0.6), (0.48, 0.56)], GOLD, 0.035)


def rabbit(brush: Brush, *, mouth: bool = True) -> None:
    brush.circle(0.8, 0.8, 0.08, WHITE)
    ears = [oval(0.5 + side * 0.14, 0.255, 0.085, 0.2, side * 8) for side in (-1, 1)]
    joined(brush, [*ears, oval(0.5, 0.76, 0.27, 0.18), oval(0.5, 0.48, 0.26, 0.2)], brush.main)
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.145, 0.235, 0.04, 0.13, BLUSH, turn=side * 8, line=0)
    brush.ellipse(0.5, 0.79, 0.13, 0.1, brush.pale, line=0)
    for side in (-1, 1):
        brush.ellipse(0.5 + side * 0.17, 0.91, 0.12, 0.05, brush.light)
        brush.ellipse(0.5 + side * 0.08, 0.73, 0.055, 0.04, brush.light, turn=side * -30)
        brush.eye(0.5 + side * 0.12, 0.44, 0.042)
        brush.ellipse(0.5 + side * 0.18, 0.53, 0.04, 0.028, BLUSH, line=0)
        if mouth:
            brush.arc(0.5 + side * 0.035, 0.535, 0.035, 0.03, 0, 180, brush.ink, 0.018)
    if mouth:
        brush.box(0.465, 0.56, 0.535, 0.62, WHITE, line=0.014)
    brush.ellipse(0.5, 0.52, 0.035, 0.025, BLUSH, line=0.014)


def elephant(brush: Brush) -> None:
    brush.curve([(0.84, 0.34), (0.93, 0.42), (0.94, 0.58)], brush.ink, 0.04)
    brush.circle(0.94, 0.61, 0.035, brush.ink, line=0)
    for x in (0.52, 0.7):
        brush.box(x - 0.07, 0.66, x + 0.07, 0.92, brush.dark, round=0.04)
    trunk = [(0.3, 0.3), (0.34, 0.5), (0.22, 0.58), (0.18, 0.74), (0.21, 0.79), (0.24, 0.74), (0.31, 0.74)]
    trunk += [(0.32, 0.84), (0.22, 0.92), (0.1, 0.87), (0.06, 0.68), (0.08, 0.44), (0.16, 0.28)]
    legs = [leg(0.46, 0.6, 0.17), leg(0.79, 0.56, 0.17)]
    joined(brush, [oval(0.61, 0.5, 0.27, 0.28), *legs, oval(0.3, 0.32, 0.23, 0.22), trunk], brush.main)
    for x in (0.42, 0.48, 0.76, 0.82):
        brush.ellipse(x, 0.92, 0.026, 0.022, WHITE, line=0)
    for y in (0.68, 0.77):
        brush.stroke([(0.09, y), (0.15, y - 0.01)], brush.dark, 0.024)
    brush.blob([(0.27, 0.47), (0.34, 0.52), (0.27, 0.61), (0.15, 0.62), (0.24, 0.55)], WHITE, line=0.02)
    brush.eye(0.21, 0.32, 0.042)
    ear = [(0.36, 0.14), (0.54, 0.07), (0.7, 0.2), (0.69, 0.44), (0.55, 0.6), (0.42, 0.48), (0.36, 0.32)]
    brush.blob(ear, brush.main)
    inner = [(0.45, 0.22), (0.55, 0.17), (0.62, 0.27), (0.6, 0.42), (0.53, 0.5), (0.46, 0.4)]
    brush.blob(inner, brush.dark, line=0)


def turtle(brush: Brush, *, mouth: bool = True) -> None:
    brush.blob([(0.82, 0.74), (0.92, 0.8), (0.96, 0.91), (0.84, 0.88)], brush.light)
    for x in (0.4, 0.76):
        brush.box(x - 0.085, 0.74, x + 0.085, 0.94, brush.light, round=0.06)
    neck = [(0.24, 0.56), (0.36, 0.66), (0.34, 0.82), (0.22, 0.78), (0.12, 0.6)]
    joined(brush, [neck, oval(0.195, 0.5, 0.145, 0.15)], brush.light)
    brush.eye(0.14, 0.47, 0.042)
    if mouth:
        brush.arc(0.13, 0.54, 0.07, 0.05, 20, 130, brush.ink, 0.022)
    brush.chord(0.59, 0.77, 0.34, 0.54, 180, 360, brush.main)
    plate = [(0.53, 0.36), (0.65, 0.36), (0.71, 0.48), (0.65, 0.6), (0.53, 0.6), (0.47, 0.48)]
    brush.polygon(plate, brush.dark, line=0)
    for side in (-1, 1):
        corner = [(0.2, 0.57), (0.25, 0.57), (0.28, 0.66), (0.17, 0.66)]
        brush.polygon([(0.59 + side * x, y) for x, y in corner], brush.dark, line=0)
    brush.box(0.22, 0.72, 0.96, 0.82, brush.main, round=0.05)


def fish(brush: Brush, *, mouth: bool = True) -> None:
    brush.blob([(0.36, 0.36), (0.42, 0.14), (0.6, 0.2), (0.64, 0.44)], brush.dark)
    brush.blob([(0.42, 0.72), (0.5, 0.9), (0.62, 0.86), (0.6, 0.68)], brush.dark)
    tail = [(0.64, 0.56), (0.78, 0.44), (0.93, 0.26), (0.95, 0.44), (0.9, 0.56), (0.95, 0.68), (0.93, 0.84)]
    body = [(0.06, 0.56), (0.2, 0.36), (0.44, 0.28), (0.64, 0.4), (0.78, 0.56), (0.64, 0.7), (0.44, 0.82)]
    joined(brush, [[*tail, (0.78, 0.66)], [*body, (0.2, 0.75)]], brush.main)
    for y in (0.44, 0.55, 0.66):
        brush.stroke([(0.84, 0.55 + (y - 0.55) * 0.7), (0.91, 0.55 + (y - 0.55) * 1.7)], brush.dark, 0.026)
    for x, y in ((0.46, 0.44), (0.46, 0.6), (0.58, 0.52), (0.58, 0.66)):
        brush.arc(x, y, 0.055, 0.065, -80, 80, brush.dark, 0.03)
    brush.arc(0.25, 0.55, 0.12, 0.2, -65, 65, brush.ink, 0.024)
    goggle(brush, 0.22, 0.48, 0.075, -0.2)
    if mouth:
        brush.arc(0.1, 0.6, 0.07, 0.05, 0, 100, brush.ink, 0.022)
    brush.circle(0.1, 0.28, 0.05, GLASS, line=0.018)
    brush.circle(0.2, 0.16, 0.035, GLASS, line=0.018)


def duck(brush: Brush) -> None:
    bird_feet(brush, 0.8, 0.46, 0.66)
    body = [(0.2, 0.62), (0.38, 0.56), (0.62, 0.56), (0.82, 0.5), (0.94, 0.37), (0.93, 0.6), (0.8, 0.8)]
    body += [(0.55, 0.87), (0.3, 0.82), (0.19, 0.73)]
    neck = [(0.22, 0.36), (0.44, 0.32), (0.46, 0.5), (0.52, 0.66), (0.22, 0.72), (0.24, 0.54)]
    joined(brush, [body, neck, oval(0.33, 0.26, 0.2, 0.19)], brush.main)
    brush.blob([(0.45, 0.63), (0.64, 0.6), (0.85, 0.6), (0.74, 0.76), (0.54, 0.79)], brush.main)
    brush.curve([(0.55, 0.7), (0.64, 0.71), (0.73, 0.67)], brush.dark, 0.03)
    brush.blob([(0.18, 0.25), (0.11, 0.3), (0.05, 0.32), (0.06, 0.38), (0.14, 0.4), (0.22, 0.37)], FLAME)
    brush.curve([(0.08, 0.35), (0.13, 0.34), (0.19, 0.33)], brush.ink, 0.018)
    brush.eye(0.29, 0.23, 0.042)


# From the egg to the hen


def egg(brush: Brush) -> None:
    shell = [(0.5, 0.06), (0.68, 0.17), (0.81, 0.4), (0.84, 0.62), (0.73, 0.86), (0.5, 0.94)]
    brush.blob(mirrored(shell), brush.main)
    brush.ellipse(0.34, 0.36, 0.05, 0.12, brush.pale, turn=24, line=0)
    specks = [(0.55, 0.3, 0.03), (0.68, 0.48, 0.04), (0.48, 0.54, 0.035), (0.31, 0.62, 0.03)]
    specks += [(0.6, 0.7, 0.032), (0.43, 0.8, 0.028), (0.74, 0.66, 0.022)]
    for x, y, r in specks:
        brush.circle(x, y, r, brush.dark, line=0)


def chick(brush: Brush) -> None:
    for lean in (-0.1, 0, 0.1):
        brush.curve([(0.5, 0.16), (0.5 + lean * 0.5, 0.1), (0.5 + lean, 0.06)], brush.ink, 0.03)
    bird_feet(brush, 0.82, 0.4, 0.62)
    joined(brush, [oval(0.5, 0.6, 0.34, 0.27), oval(0.5, 0.36, 0.27, 0.23)], brush.main)
    brush.ellipse(0.5, 0.7, 0.17, 0.12, brush.light, line=0)
    for side in (-1, 1):
        wing = [(0.26, 0.5), (0.36, 0.52), (0.45, 0.64), (0.34, 0.7), (0.26, 0.62)]
        brush.blob([(0.5 + side * x, y) for x, y in wing], brush.main)
        brush.eye(0.5 + side * 0.13, 0.33, 0.045)
        brush.ellipse(0.5 + side * 0.19, 0.42, 0.04, 0.028, BLUSH, line=0)
    brush.polygon([(0.41, 0.4), (0.5, 0.36), (0.59, 0.4), (0.5, 0.5)], FLAME)
    brush.stroke([(0.42, 0.41), (0.58, 0.41)], brush.ink, 0.016)


def hen(brush: Brush) -> None:
    bird_feet(brush, 0.78, 0.46, 0.64)
    for x, y, r in ((0.2, 0.14, 0.055), (0.29, 0.1, 0.06), (0.38, 0.14, 0.055)):
        brush.circle(x, y, r, COMB)
    for x, y, turn in ((0.85, 0.42, 55), (0.84, 0.3, 22), (0.72, 0.26, -4)):
        brush.ellipse(x, y, 0.08, 0.19 if turn < 50 else 0.11, brush.dark, turn=turn)
    body = [(0.17, 0.3), (0.28, 0.14), (0.42, 0.22), (0.48, 0.38), (0.6, 0.44), (0.78, 0.4), (0.88, 0.5)]
    brush.blob([*body, (0.86, 0.66), (0.72, 0.8), (0.48, 0.84), (0.26, 0.72), (0.18, 0.5)], brush.main)
    brush.blob([(0.42, 0.56), (0.58, 0.54), (0.8, 0.57), (0.7, 0.71), (0.52, 0.74)], brush.main)
    brush.curve([(0.52, 0.64), (0.6, 0.66), (0.69, 0.63)], brush.dark, 0.03)
    brush.ellipse(0.22, 0.44, 0.04, 0.065, COMB)
    brush.polygon([(0.18, 0.25), (0.05, 0.33), (0.2, 0.37)], FLAME)
    brush.eye(0.3, 0.27, 0.04)


# From the spawn to the frog


def frog_spawn(brush: Brush) -> None:
    brush.ellipse(0.5, 0.86, 0.455, 0.08, GLASS)
    heap = [(0.4, 0.25), (0.68, 0.33), (0.2, 0.46), (0.47, 0.53), (0.79, 0.6)]
    heap += [(0.2, 0.73), (0.6, 0.78), (0.4, 0.77)]
    for x, y in heap:
        brush.circle(x, y, 0.165, brush.main)
        brush.arc(x, y, 0.115, 0.115, 175, 260, brush.pale, 0.032)
        brush.circle(x + 0.012, y + 0.012, 0.055, brush.ink, line=0)


def tadpole(brush: Brush) -> None:
    tail = [(0.44, 0.36), (0.58, 0.48), (0.7, 0.48), (0.8, 0.34), (0.93, 0.16), (0.94, 0.4), (0.87, 0.6)]
    tail += [(0.76, 0.72), (0.6, 0.74), (0.4, 0.84)]
    joined(brush, [tail, oval(0.34, 0.58, 0.28, 0.28)], brush.main)
    brush.curve([(0.64, 0.61), (0.76, 0.59), (0.85, 0.46), (0.91, 0.3)], brush.dark, 0.045)
    brush.ellipse(0.33, 0.77, 0.14, 0.06, brush.light, line=0)
    for x in (0.2, 0.43):
        goggle(brush, x, 0.5, 0.09, -0.15)
    brush.arc(0.3, 0.63, 0.1, 0.07, 10, 170, brush.ink, 0.026)


def froglet(brush: Brush) -> None:
    limb(brush, [(0.62, 0.74), (0.79, 0.76), (0.88, 0.66), (0.9, 0.5)], brush.main, 0.075)
    body = [(0.05, 0.54), (0.1, 0.42), (0.26, 0.34), (0.44, 0.38), (0.62, 0.5), (0.74, 0.68), (0.68, 0.82)]
    body += [(0.44, 0.86), (0.2, 0.78), (0.08, 0.66)]
    joined(brush, [body, oval(0.28, 0.32, 0.14, 0.14)], brush.main)
    brush.blob([(0.13, 0.69), (0.28, 0.65), (0.4, 0.74), (0.36, 0.82), (0.24, 0.78)], brush.pale, line=0)
    limb(brush, [(0.34, 0.7), (0.28, 0.8), (0.28, 0.91), (0.14, 0.92)], brush.main, 0.06)
    limb(brush, [(0.7, 0.84), (0.6, 0.92), (0.44, 0.92)], brush.main, 0.06)
    brush.ellipse(0.62, 0.72, 0.1, 0.18, brush.main, turn=28)
    goggle(brush, 0.26, 0.31, 0.09, -0.2)
    brush.curve([(0.06, 0.56), (0.2, 0.58), (0.36, 0.5)], brush.ink, 0.028)


def frog(brush: Brush, *, mouth: bool = True) -> None:
    parts = [oval(0.5, 0.72, 0.28, 0.2), oval(0.5, 0.48, 0.36, 0.22)]
    for side in (-1, 1):
        parts.append(oval(0.5 + side * 0.29, 0.77, 0.16, 0.14, side * 30))
        parts.append(oval(0.5 + side * 0.2, 0.24, 0.14, 0.15))
    joined(brush, parts, brush.main)
    brush.ellipse(0.5, 0.78, 0.17, 0.13, brush.pale, line=0)
    for side in (-1, 1):
        knee = ((0.21, 0.7), (0.2, 0.8), (0.27, 0.87))
        brush.curve([(0.5 + side * x, y) for x, y in knee], brush.ink, 0.022)
        foot = ((0.2, 0.87), (0.33, 0.85), (0.45, 0.91), (0.33, 0.95), (0.18, 0.94))
        brush.blob([(0.5 + side * x, y) for x, y in foot], brush.dark)
        goggle(brush, 0.5 + side * 0.2, 0.23, 0.09, -side * 0.15)
        brush.ellipse(0.5 + side * 0.27, 0.51, 0.05, 0.035, BLUSH, line=0)
        brush.circle(0.5 + side * 0.03, 0.41, 0.012, brush.ink, line=0)
    if mouth:
        brush.arc(0.5, 0.46, 0.21, 0.11, 12, 168, brush.ink, 0.028)


# From the egg to the butterfly


def butterfly_egg(brush: Brush) -> None:
    leaf = [(0.05, 0.78), (0.2, 0.8), (0.5, 0.76), (0.8, 0.82), (0.95, 0.93), (0.5, 0.95), (0.15, 0.89)]
    brush.blob(leaf, LEAF)
    shell = [(0.5, 0.07), (0.7, 0.15), (0.83, 0.38), (0.82, 0.64), (0.7, 0.83), (0.5, 0.87)]
    brush.blob(mirrored(shell), brush.main)
    for bend in (-0.24, -0.09, 0.09, 0.24):
        rib = [(0.5 + bend * 0.2, 0.15), (0.5 + bend, 0.47), (0.5 + bend * 0.75, 0.78)]
        brush.curve(rib, brush.dark, 0.034)
    brush.ellipse(0.28, 0.34, 0.035, 0.09, brush.pale, turn=24, line=0)


def caterpillar(brush: Brush) -> None:
    body = ((0.83, 0.74), (0.69, 0.64), (0.54, 0.66), (0.38, 0.73))
    for x, y in body:
        for foot in (-0.05, 0.05):
            brush.stroke([(x + foot, y), (x + foot, 0.92)], brush.ink, 0.05)
    for x, y in body:
        brush.ellipse(x, y, 0.13, 0.18, brush.main)
        brush.ellipse(x + 0.02, y - 0.07, 0.035, 0.045, brush.pale, line=0)
    for lean in (-0.1, 0.1):
        feeler = [(0.26 + lean * 0.5, 0.36), (0.26 + lean, 0.2), (0.26 + lean * 1.5, 0.12)]
        brush.curve(feeler, brush.ink, 0.032)
        brush.circle(0.26 + lean * 1.5, 0.11, 0.045, brush.main)
    brush.circle(0.26, 0.5, 0.22, brush.main)
    for x in (0.17, 0.34):
        brush.eye(x, 0.46, 0.047)
    brush.arc(0.255, 0.54, 0.085, 0.065, 10, 170, brush.ink, 0.026)


def chrysalis(brush: Brush) -> None:
    limb(brush, [(0.08, 0.12), (0.4, 0.09), (0.92, 0.12)], WOOD, 0.045)
    brush.blob([(0.78, 0.13), (0.86, 0.19), (0.95, 0.28), (0.83, 0.29), (0.77, 0.22)], LEAF)
    brush.stroke([(0.5, 0.1), (0.5, 0.2)], WHITE, 0.05)
    case = [(0.5, 0.17), (0.61, 0.2), (0.7, 0.31), (0.78, 0.48), (0.73, 0.68), (0.6, 0.86), (0.5, 0.95)]
    brush.blob(mirrored(case), brush.main)
    brush.curve([(0.24, 0.46), (0.38, 0.45), (0.49, 0.58), (0.49, 0.84)], brush.dark, 0.04)
    brush.curve([(0.3, 0.56), (0.37, 0.62), (0.41, 0.74)], brush.dark, 0.04)
    for y, reach in ((0.46, 0.27), (0.58, 0.26), (0.69, 0.22), (0.8, 0.14)):
        fold = [(0.5, y + 0.03), (0.5 + reach * 0.5, y + 0.025), (0.5 + reach, y - 0.01)]
        brush.curve(fold, brush.ink, 0.024)
    for x, y in ((0.36, 0.34), (0.455, 0.36), (0.545, 0.36), (0.64, 0.34)):
        brush.circle(x, y, 0.024, WHITE, line=0)


def butterfly(brush: Brush) -> None:
    for side in (-1, 1):
        lower = [(0.04, 0.54), (0.26, 0.54), (0.37, 0.68), (0.32, 0.87), (0.18, 0.9), (0.06, 0.72)]
        upper = [(0.03, 0.5), (0.12, 0.24), (0.3, 0.1), (0.44, 0.14), (0.45, 0.36), (0.36, 0.54), (0.18, 0.6)]
        brush.blob([(0.5 + side * x, y) for x, y in lower], brush.main)
        brush.blob([(0.5 + side * x, y) for x, y in upper], brush.main)
        brush.circle(0.5 + side * 0.31, 0.3, 0.075, brush.pale, line=0)
        brush.circle(0.5 + side * 0.23, 0.75, 0.055, brush.pale, line=0)
        brush.ellipse(0.5 + side * 0.18, 0.45, 0.08, 0.045, brush.dark, turn=side * -30, line=0)
        feeler = ((0.02, 0.3), (0.06, 0.18), (0.14, 0.1))
        brush.curve([(0.5 + side * x, y) for x, y in feeler], brush.ink, 0.026)
        brush.circle(0.5 + side * 0.14, 0.1, 0.028, brush.ink, line=0)
    brush.ellipse(0.5, 0.6, 0.055, 0.25, brush.ink, line=0)
    brush.circle(0.5, 0.34, 0.07, brush.ink, line=0)


_FACES: tuple[tuple[Callable[..., None], Face], ...] = (
    (cat, Face(((0.3, 0.35), (0.54, 0.35)), (0.42, 0.5), 0.05)),
    (dog, Face(((0.28, 0.28),), (0.18, 0.485), 0.055, corner=(0.68, 0.16))),
    (rabbit, Face(((0.38, 0.44), (0.62, 0.44)), (0.5, 0.565), 0.05, corner=(0.86, 0.16))),
    (elephant, Face(((0.21, 0.32),), (0, 0), beaked=True, corner=(0.86, 0.12))),
    (turtle, Face(((0.14, 0.47),), (0.13, 0.56), 0.05, corner=(0.3, 0.18))),
    (fish, Face(((0.22, 0.48),), (0.13, 0.62), 0.05, r=0.052, corner=(0.86, 0.12))),
    (duck, Face(((0.29, 0.23),), (0, 0), beaked=True, corner=(0.74, 0.2))),
    (hen, Face(((0.3, 0.27),), (0, 0), beaked=True, corner=(0.62, 0.13))),
    (frog, Face(((0.3, 0.24), (0.7, 0.24)), (0.5, 0.5), 0.1, r=0.06, corner=(0.87, 0.6))),
)


def _with_moods(draw: Callable[..., None], face: Face) -> dict[str, Callable[[Brush], None]]:
    mute = draw if face.beaked else partial(draw, mouth=False)
    return with_moods(draw.__name__, draw, face, mute=mute)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    "cat": cat,
    "dog": dog,
    "rabbit": rabbit,
    "elephant": elephant,
    "turtle": turtle,
    "fish": fish,
    "duck": duck,
    "egg": egg,
    "chick": chick,
    "hen": hen,
    "frog spawn": frog_spawn,
    "tadpole": tadpole,
    "froglet": froglet,
    "frog": frog,
    "butterfly egg": butterfly_egg,
    "caterpillar": caterpillar,
    "chrysalis": chrysalis,
    "butterfly": butterfly,
    **{noun: drawing for draw, face in _FACES for noun, drawing in _with_moods(draw, face).items()},
}
